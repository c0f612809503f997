/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two profiles: gained and lost figures by callsite, function, module, thread,
 * type or context, for every heap that both or one of them have. estimate_change.h explains the
 * figures and which are beyond chance; matching.h defines when two things are the same.
 *
 * Two dumps of the same process (same pid and start) are compared heap by heap. Other heaps are
 * paired by the names of program and heap; several processes of one name are added up. If each side
 * has only one process or one heap, the names need not agree.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_DIFF_H
#define HEAPPROFD_PROFILE_COMPARE_DIFF_H

#include "profile/compare/estimate_change.h"
#include "profile/dimension.h"
#include "profile/folding.h"
#include "profile/rollup.h"
#include "profile/view.h"

/* How processes of the two sides are paired. */
enum diff_pairing {
    DIFF_PAIR_NAMES,  /* by name, as described above */
    DIFF_PAIR_PIDS,   /* by pid, and by name if a pid has two of them; a single process on each side
                         is always a pair */
    DIFF_PAIR_LABELS, /* by name and command line; Chrome's browser and GPU process by name only */
};

/* The figures from which the five views are computed. */
enum diff_figure { DIFF_LIVE, DIFF_ALLOCATED, DIFF_PEAK, DIFF_FIGURES };
enum diff_figure diff_figure_of(enum export_view view);

/* The chosen dumps of one side. */
struct diff_side {
    const struct profile *profile;
    const struct export_dump *dumps;
    size_t dump_count;
};

struct diff_options {
    enum dimension by; /* by thread: by name; within one process, each thread */
    bool lines;        /* distinguish callsites by source lines, too */
    enum diff_pairing pairing;
    unsigned views; /* views to judge, as bits 1 << enum export_view; 0: all */
    bool types;     /* by callsite: also the live bytes of each type */
    /* Merge callsites that a line of a table shows alike: same folding_head() and next callers.
     * foldings: of both sides; NULL: nothing is folded. */
    bool as_shown;
    const struct folding *foldings[2];
    bool stacks; /* by callsite: also the samples of each row */
};

/* A sample in a row. */
struct diff_stack {
    size_t row;
    int side;
    const struct profile_sample *sample;
};

/* The live part of one type in a row. */
struct diff_type {
    size_t row;
    const char *type; /* DIFF_NO_TYPE: of no type */
    double gained_bytes, lost_bytes, gained_count, lost_count;
};
#define DIFF_NO_TYPE "[unknown]"

struct diff_row {
    /* A place in one of the two profiles that identifies the row. */
    const struct profile *profile;
    uint32_t callsite; /* by callsite; else PROFILE_NONE */
    uint32_t frame;    /* by function or module; else PROFILE_NONE */
    const char *label; /* by thread, type or context; else NULL */
    int32_t tid;       /* by thread of one process; else 0 */
    /* By thread: traces have no peak of single threads, so the peak figures are all 0. */
    bool peak_is_unknown;
    struct profile_estimate before[DIFF_FIGURES], after[DIFF_FIGURES];
    struct change_parts parts[DIFF_FIGURES];
    struct change changes[EXPORT_VIEWS]; /* by view */
    /* Whether a change is beyond chance. In a sampled profile only the total is marked at the peak:
     * samples decide which moment the peak is, and each row's figure depends on that. */
    bool marks[EXPORT_VIEWS];
    size_t type_first, type_count;   /* in diff_pair.types, if asked for */
    size_t stack_first, stack_count; /* in diff_pair.stacks, if asked for */
};

/* A compared heap: one dump on each side, or dumps of several processes. */
struct diff_pair {
    struct export_dump *before, *after;
    size_t before_count, after_count;
    bool same_process;
    bool process_missing; /* one side has no heap of that process at all */
    bool exact;           /* all allocations were recorded, on both sides */
    bool partial;         /* as `exact`, but some samples were lost */
    struct change_sampling sampling;
    struct change_bounds bounds[DIFF_FIGURES][2]; /* [0] of bytes, [1] of counts */
    struct diff_row *rows;                        /* in no order */
    size_t row_count;
    struct diff_type *types; /* by row */
    size_t type_count;
    struct diff_stack *stacks; /* by row */
    size_t stack_count;
    struct diff_row
        total; /* of whole heaps, as reports show them; with a filter, of what it keeps */
};

struct diff {
    struct diff_pair *pairs;
    size_t pair_count;
};

/* Return a new difference, which diff_free() frees. NULL: no memory. */
struct diff *diff_new(const struct diff_side *before, const struct diff_side *after,
                      const struct diff_options *options);
void diff_free(struct diff *diff);

/* Return whether a side's file does not contain the view's figures: its changes mean nothing. */
bool diff_is_unknown(const struct diff_pair *pair, enum export_view view);

/* Return the rows that differ in a view, the greatest change first. The caller frees the array.
 * NULL: no memory. */
const struct diff_row **diff_rank(const struct diff_pair *pair, enum export_view view,
                                  size_t *count);

/* Return what is gained and lost between two values, [0] before and [1] after, of the smallest unit
 * that has figures: a callsite, or its part of one thread, type and context. same_process: both are
 * sums since the start of one process. */
struct change_parts diff_parts_of(const struct rollup_values values[2], enum diff_figure figure,
                                  bool same_process);

/* Return the bounds of a pair's changes by the exact totals. At the peak, pair->total must have the
 * estimates of both sides. */
struct change_bounds diff_bounds_of(const struct diff_pair *pair, enum diff_figure figure,
                                    bool counts);

/* Return the estimate of a figure. */
struct profile_estimate diff_estimate_of(const struct rollup_values *values,
                                         enum diff_figure figure);

#endif
