/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say which heaps are profiled, and what their callsites are: the same for all
 * verbs that profile.
 */
#ifndef HEAPPROFD_CLI_OPTIONS_HEAP_OPTIONS_H
#define HEAPPROFD_CLI_OPTIONS_HEAP_OPTIONS_H

#include <stdbool.h>

#include "trace/config/trace_config.h"

enum heap_option {
    HEAP_OPTION_HEAPS = 1024, /* above the options of the verbs */
    HEAP_OPTION_ALL,
    HEAP_OPTION_EXCLUDE,
    HEAP_OPTION_INTERVALS,
    HEAP_OPTION_STACK_MODE,
};

/* To stand among the verb's struct options, and in its help. */
/* clang-format off */
#define HEAP_OPTIONS                                                                               \
    {"heaps", required_argument, NULL, HEAP_OPTION_HEAPS},                                         \
    {"all-heaps", no_argument, NULL, HEAP_OPTION_ALL},                                             \
    {"exclude-heaps", required_argument, NULL, HEAP_OPTION_EXCLUDE},                               \
    {"heap-intervals", required_argument, NULL, HEAP_OPTION_INTERVALS},                            \
    {"stack-mode", required_argument, NULL, HEAP_OPTION_STACK_MODE}
/* clang-format on */

#define HEAP_OPTIONS_HELP                                                                          \
    "      --heaps A,B        these heaps (libc.malloc); also those that programs register\n"      \
    "      --all-heaps        all of them; libc.mmap only where --heaps names it\n"                \
    "      --exclude-heaps A,B        none of these\n"                                             \
    "      --heap-intervals 4k,1      bytes between samples, one for each of --heaps\n"            \
    "      --stack-mode MODE  what a callsite is: native (the stack), native-with-thread-names,\n" \
    "                         pseudo (the program's contexts), mixed (the stack below them)\n"

/* Takes one of these options. False: it is none, or its value was refused with a message. */
bool heap_option_take(int option, const char *value, struct heap_config *config);
/* Says which of --exclude-heaps would not be profiled in any case; after all options. */
void heap_options_warn(const struct heap_config *config);

#endif
