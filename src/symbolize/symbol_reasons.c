/* SPDX-License-Identifier: Apache-2.0 */
/* Why addresses have no name: for programs, for people, and what to do about it. */
#include "symbolize/symbolize.h"

const char *symbol_reason_name(enum symbol_reason reason)
{
    static const char *const names[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "no_build_id", [SYMBOL_NO_FILE] = "no_file",
        [SYMBOL_OTHER_BUILD] = "other_build", [SYMBOL_NO_INFORMATION] = "no_symbol",
        [SYMBOL_OUTSIDE] = "outside",         [SYMBOL_SHRANK] = "shrank",
    };
    return names[reason];
}

const char *symbol_reason_text(enum symbol_reason reason)
{
    static const char *const texts[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "no build id",
        [SYMBOL_NO_FILE] = "no file with this build id",
        [SYMBOL_OTHER_BUILD] = "the file is another build",
        [SYMBOL_NO_INFORMATION] = "no symbol there",
        [SYMBOL_OUTSIDE] = "outside the code of the file",
        [SYMBOL_SHRANK] = "the file was truncated while it was read",
    };
    return texts[reason];
}

const char *symbol_reason_remedy(enum symbol_reason reason)
{
    static const char *const remedies[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "link it with -Wl,--build-id",
        [SYMBOL_NO_FILE] = "name the directory that has it in PERFETTO_BINARY_PATH",
        [SYMBOL_OTHER_BUILD] =
            "name the directory with the files of the build that ran in PERFETTO_BINARY_PATH",
        [SYMBOL_NO_INFORMATION] = "install its debug symbols, or build it with -g",
        [SYMBOL_OUTSIDE] = "the program generated or loaded the code itself: no file has its name",
        [SYMBOL_SHRANK] = "repeat this when the file is complete",
    };
    return remedies[reason];
}
