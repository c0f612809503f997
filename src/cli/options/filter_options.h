/* SPDX-License-Identifier: Apache-2.0 */
/* The options --focus, --ignore, --hide and --show-from of verbs that show or convert stacks, and
 * the text about the stacks that they leave out (profile/filter.h). */
#ifndef HEAPPROFD_CLI_OPTIONS_FILTER_OPTIONS_H
#define HEAPPROFD_CLI_OPTIONS_FILTER_OPTIONS_H

#include "cli/options/options.h"
#include "cli/print/format.h"
#include "profile/filter.h"

/* The member is a struct profile_filter. */
#define FILTER_OPTIONS(type, member)                                                               \
    OPTION_ENTRY_CALL("focus", 0, type, member, take_filter),                                      \
        OPTION_ENTRY_CALL("ignore", 0, type, member, take_filter),                                 \
        OPTION_ENTRY_CALL("hide", 0, type, member, take_filter),                                   \
        OPTION_ENTRY_CALL("show-from", 0, type, member, take_filter)
option_take take_filter;

#define FILTER_HELP                                                                                \
    "  --focus REGEX, --ignore REGEX   keep only, or drop, stacks with a frame whose function,\n"  \
    "                  source file or module matches\n"                                            \
    "  --hide REGEX, --show-from REGEX   remove matching frames, or the callers of the "           \
    "outermost\n"                                                                                  \
    "                  matching frame\n"

/* "3.20 MB of 12.0 MB (26.7 %)". */
struct filter_share {
    char bytes[96];
};
struct filter_share filter_options_share(double part, double whole, bool counts);

#endif
