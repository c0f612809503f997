/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report on a profile, for people and for scripts, from the same figures.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_H
#define HEAPPROFD_CLI_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/options/profile_options.h"
#include "profile/confidence_interval.h"
#include "profile/grouping.h"
#include "profile/rollup.h"

enum report_view {
    REPORT_SPACE,         /* bytes live */
    REPORT_OBJECTS,       /* allocations live */
    REPORT_ALLOC_SPACE,   /* bytes ever allocated */
    REPORT_ALLOC_OBJECTS, /* allocations ever made */
    REPORT_MAX,           /* bytes live when the heap was largest */
    REPORT_VIEWS,
};

struct report_options {
    enum report_view view;
    uint64_t top; /* lines of a table; 0: all */
    struct dump_choice choice;
    bool cumulative, tree,
        thread;      /* what a line is: function inclusive, tree, thread; else callsite */
    bool addresses;  /* in the tree: a line for each call site, not for each function */
    bool brief;      /* head and one short table: what host prints at its end */
    bool stacks;     /* whole stacks under each callsite */
    bool all_frames; /* those of allocators, run times and standard libraries, too */
    bool rss;        /* what the process has in memory, in place of all that */
    bool colours;
    size_t columns;          /* of a line of text; 0: any */
    bool simple_names;       /* without parameters, though those of the profile have them */
    enum grouping_key by[2]; /* by[0] GROUPING_NONE: the ordinary report */
};

extern const char *const report_view_names[REPORT_VIEWS];

/* Check that the report has a size that somebody can read: whole_stacks: each stack stands there by
 * itself; else callers once a heap. 0, or -E2BIG (export/view.h) or -ENOMEM with *error set. */
int report_check_size(const struct profile *profile, const struct report_options *options,
                      bool whole_stacks, struct error *error);

/* Both return 0, -ENOENT if nothing in the profile answers to the options, or -ENOMEM. */
int report_print_text(const struct profile *profile, const struct report_options *options,
                      FILE *out);
int report_print_json(const struct profile *profile, const struct report_options *options,
                      FILE *out);

/* --- shared by both --- */

/* "type", "context", or "backtrace". */
const char *report_group_key_name(enum grouping_key key);

/* Reads "type" or "type,backtrace" and the like; false: it is none of them. */
bool report_parse_groups(const char *text, enum grouping_key by[2]);

/* The rows that there is something in, by rank, as indexes; malloc'd. NULL: no memory. */
size_t *report_rank_rows(const struct grouping_row *rows, size_t count, enum report_view view,
                         size_t *ranked_count);

/* The dump that the options ask for; NULL: the heap has none such, or is not asked for. */
const struct profile_dump *report_dump_of(const struct profile *profile,
                                          const struct profile_heap *heap,
                                          const struct report_options *options);

struct report_figure {
    double bytes, count; /* estimates in this view */
    double bytes_variance, count_variance;
    double samples;
};
struct report_figure report_figure_of(const struct rollup_values *values, enum report_view view);

/* The 95 % interval of a figure's bytes, or of its count; NAN: the file does not tell the interval
 * of sampling. */
struct profile_interval report_interval_of(const struct report_figure *figure, bool counts,
                                           const struct profile_heap *heap,
                                           const struct profile_dump *dump);
/* The same for a sum over the whole heap, which also covers sizes that have no sample. */
struct profile_interval report_total_interval_of(const struct report_figure *figure, bool counts,
                                                 const struct profile_heap *heap,
                                                 const struct profile_dump *dump);

/* Whether the heap's file does not tell what this view shows. */
bool report_is_unknown(const struct profile_heap *heap, enum report_view view);

/* What the view ranks by: bytes or count. */
double report_rank(const struct report_figure *figure, enum report_view view);

/* Return the sum over a dump in a view, including what a filter left out. */
struct report_figure report_total_of(const struct profile_dump *dump, enum report_view view);

/* Bytes of the heap when it was largest before this dump. */
double report_peak_bytes(const struct profile_heap *heap, const struct profile_dump *dump);

uint64_t report_peak_rss(const struct profile_process *process);

/* 0: the trace does not say whose events they are. */
int32_t report_pid_of_stream(const struct profile *profile, const struct profile_stream *stream);

#endif
