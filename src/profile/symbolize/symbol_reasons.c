/* SPDX-License-Identifier: Apache-2.0 */
/* Why addresses have no name: for programs, for people, and what to do about it. */
#include "profile/symbolize/symbolize.h"

const struct symbol_reason_text symbol_reasons[SYMBOL_REASONS] = {
    [SYMBOL_NO_BUILD_ID] = {"no_build_id", "no build id",
                            "name the directory with the file that ran in PERFETTO_BINARY_PATH"},
    [SYMBOL_NO_FILE] = {"no_file", "no file with this build id",
                        "name the directory that has it in PERFETTO_BINARY_PATH"},
    [SYMBOL_OTHER_BUILD] = {"other_build", "the file is another build",
                            "name the directory with the files of the build that ran in "
                            "PERFETTO_BINARY_PATH"},
    [SYMBOL_NO_INFORMATION] =
        {"no_symbol", "no symbol there",
         "build it with -g, or name the directory that has its debug symbols in "
         "PERFETTO_BINARY_PATH"},
    [SYMBOL_OUTSIDE] = {"outside", "outside the code of the file",
                        "the program generated or loaded the code itself: no file has its name"},
    [SYMBOL_SHRANK] = {"shrank", "the file was truncated while it was read",
                       "repeat this when the file is complete"},
};
