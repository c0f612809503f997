/* SPDX-License-Identifier: Apache-2.0 */
/* The options --focus, --ignore, --hide and --show-from of the verbs that show or convert stacks,
 * and the words for what they left out (profile/filter.h). */
#ifndef HEAPPROFD_CLI_OPTIONS_FILTER_OPTIONS_H
#define HEAPPROFD_CLI_OPTIONS_FILTER_OPTIONS_H

#include "cli/print/format.h"
#include "profile/filter.h"

/* Values for getopt_long(). A verb's own options must be below them. */
#define FILTER_OPTION_FIRST 1000
#define FILTER_OPTIONS                                                                             \
    {"focus", required_argument, NULL, FILTER_OPTION_FIRST + PROFILE_FOCUS},                       \
        {"ignore", required_argument, NULL, FILTER_OPTION_FIRST + PROFILE_IGNORE},                 \
        {"hide", required_argument, NULL, FILTER_OPTION_FIRST + PROFILE_HIDE},                     \
    {                                                                                              \
        "show-from", required_argument, NULL, FILTER_OPTION_FIRST + PROFILE_SHOW_FROM              \
    }

#define FILTER_HELP                                                                                \
    "  --focus REGEX, --ignore REGEX   keep only stacks in which a function, file or module\n"     \
    "                  matches; drop these stacks\n"                                               \
    "  --hide REGEX, --show-from REGEX   remove frames that match; remove the callers of the\n"    \
    "                  outermost frame that matches\n"

bool filter_options_has(int option);
/* Return false after printing a message if the value is wrong. */
bool filter_options_take(int option, const char *text, struct profile_filter *filter);

/* "3.20 MB of 12.0 MB (26.7 %)". */
struct filter_share {
    char bytes[96];
};
struct filter_share filter_options_share(double part, double whole, bool counts);

#endif
