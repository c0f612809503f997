/* SPDX-License-Identifier: Apache-2.0 */
/* The options of verbs that read profiles: which dumps and stacks, in which view, with which names.
 * They have the same meaning in every verb. */
#ifndef HEAPPROFD_TOOLS_CLI_OPTIONS_PROFILE_OPTIONS_H
#define HEAPPROFD_TOOLS_CLI_OPTIONS_PROFILE_OPTIONS_H

#include <stdint.h>

#include "profile/filter.h"
#include "profile/symbols/demangle.h"
#include "profile/view.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"

/* --dump: the number of a heap's dump, from 1, or one of these values. */
#define DUMP_LAST UINT64_C(0)
#define DUMP_ALL UINT64_MAX

/* The dumps that --pid, --heap and --dump choose. */
struct dump_choice {
    int32_t pid;      /* 0: all */
    const char *heap; /* NULL: all */
    uint64_t dump;
};

/* Return whether the choice includes dump `index` of a heap. */
bool dump_choice_wants(const struct dump_choice *choice, const struct profile *profile,
                       const struct profile_heap *heap, size_t index);
/* List the chosen dumps, without those of heaps that were never profiled. Return their number with
 * *dumps malloc'd. */
size_t dump_choice_list(const struct dump_choice *choice, const struct profile *profile,
                        struct export_dump **dumps);
/* Return the one dump of a heap that the choice (other than DUMP_ALL) selects; NULL: none. */
const struct profile_dump *dump_choice_of(const struct dump_choice *choice,
                                          const struct profile *profile,
                                          const struct profile_heap *heap);

/* Set the error that a file contains no heap profile, and return its code. */
int profile_options_explain_empty(const struct profile *profile, const char *path,
                                  struct error *error);

/* The member is a struct dump_choice. */
#define DUMP_CHOICE_OPTIONS(type, member)                                                          \
    OPTION_ENTRY("pid", 0, OPTION_PID, type, member.pid),                                          \
        OPTION_ENTRY("heap", 0, OPTION_TEXT, type, member.heap),                                   \
        OPTION_ENTRY_CALL("dump", 0, type, member.dump, take_dump)
#define DUMP_CHOICE_HELP                                                                           \
    "  --pid PID, --heap NAME   only this process, only this heap\n"                               \
    "  --dump N      the N-th dump of each heap, from 1, or 'final', the last (default)\n"
option_take take_dump;        /* takes N, last or final */
option_take take_dump_or_all; /* takes "all", too */

/* The member is an enum export_view. */
#define VIEW_OPTION(type, member) OPTION_ENTRY_CHOICE("view", type, member, view_option_names)
extern const char *const view_option_names[];

/* The member is an int: an enum demangle_mode, or DEMANGLING_DEFAULT if the option is missing. */
#define DEMANGLE_OPTION(type, member)                                                              \
    OPTION_ENTRY_CHOICE("demangle", type, member, demangle_option_names)
#define DEMANGLING_DEFAULT (-1)
#define DEMANGLE_FULL_HELP                                                                         \
    "  --demangle full|simple|none   functions' names in full (default), without parameters and\n" \
    "                template arguments, or mangled\n"
/* Return the chosen mode; without a choice, full names for scripts and simple ones for people. */
enum demangle_mode demangling_of(int chosen, bool for_scripts);
extern const char *const demangle_option_names[];

/* The member is a bool: whether all frames are shown. */
#define FRAMES_OPTION(type, member) OPTION_ENTRY_EITHER("frames", type, member, frames_option_names)
extern const char *const frames_option_names[];
#define FRAMES_HELP                                                                                \
    "  --frames all    show frames of allocators, language runtimes and standard libraries,\n"     \
    "                  too; the default (own) folds them\n"

/* The member is a struct profile_filter. */
#define FILTER_OPTIONS(type, member)                                                               \
    OPTION_ENTRY_CALL("focus", 0, type, member, take_filter),                                      \
        OPTION_ENTRY_CALL("ignore", 0, type, member, take_filter),                                 \
        OPTION_ENTRY_CALL("hide", 0, type, member, take_filter),                                   \
        OPTION_ENTRY_CALL("show-from", 0, type, member, take_filter),                              \
        OPTION_ENTRY("native", 0, OPTION_SET, type, member.native)
option_take take_filter;

#define FILTER_HELP                                                                                \
    "  --focus REGEX, --ignore REGEX   keep only, or drop, stacks with a frame whose function,\n"  \
    "                  source file or module matches\n"                                            \
    "  --hide REGEX, --show-from REGEX   remove matching frames, or the callers of the "           \
    "outermost\n"                                                                                  \
    "                  matching frame\n"                                                           \
    "  --native        show the interpreter's frames beside the language's functions\n"

/* "3.20 MB of 12.0 MB (26.7 %)". */
struct filter_share {
    char bytes[128];
};
struct filter_share profile_options_share(double part, double whole, bool counts);

#endif
