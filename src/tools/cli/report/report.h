/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report on a profile, as text and as JSON, from the same figures. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "profile/compare/estimates.h"
#include "profile/sums.h"
#include "tools/cli/options/profile_options.h"

/* The dimensions of --by: one, or the second within each row of the first; 0: none. */
struct report_groups {
    enum dimension by[2];
    size_t depth;
};

struct report_options {
    enum export_view view;
    bool chooses_view; /* the report's text is in the view that answers first */
    uint64_t top;      /* rows of a table, callsites of a heap in JSON; 0: all */
    bool compact;      /* in JSON each frame and each stack once */
    struct dump_choice choice;
    bool cumulative, tree, thread; /* rows: functions with callees, tree, threads; else callsites */
    bool addresses;  /* in the tree: a line for each call site, not for each function */
    bool brief;      /* header and one short table, printed at the end of a recording */
    bool stacks;     /* whole stacks under each callsite */
    bool lifetimes;  /* whether each callsite grows or turns over */
    bool all_frames; /* show frames of allocators, runtimes and standard libraries, too */
    bool rss;        /* explain the process's memory instead of printing tables */
    bool colours;
    size_t columns;    /* of a line of text; 0: unlimited */
    bool simple_names; /* show names without parameters even if the profile has them */
    struct report_groups groups;
};

/* Check that the profile is small enough for a report. `whole_stacks`: each stack counts by itself;
 * else common callers count once a heap. Return 0, or -E2BIG (profile/view.h) or -ENOMEM with
 * *error set. */
int report_check_size(const struct profile *profile, const struct report_options *options,
                      bool whole_stacks, struct error *error);

/* Return 0, or -ENOENT if nothing in the profile matches the options. */
int report_print_text(const struct profile *profile, const struct report_options *options,
                      FILE *out);
int report_print_json(const struct profile *profile, const struct report_options *options,
                      FILE *out);

/* Print why processes, or names without a process, were not profiled: the first ten. */
void report_print_unprofiled(const struct profile *profile, FILE *out);

/* --- shared by both --- */

/* Return "type", "context", or "backtrace". */
const char *report_group_key_name(enum dimension key);

/* Parse "type", "type,backtrace" and the like. Return false if `text` is not one of them. */
bool report_parse_groups(const char *text, struct report_groups *groups);

/* Return the indexes of the rows that are not empty, by rank; malloc'd. */
size_t *report_rank_rows(const struct sums_row *rows, size_t count, enum export_view view,
                         size_t *ranked_count);

/* Return the pid of a stream's process; 0: unknown. */
int32_t report_pid_of_stream(const struct profile *profile, const struct profile_stream *stream);

#endif
