/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two profiles: what was gained and lost by callsite, function, module, thread,
 * type or context, of every heap that both have, or one of them. The figures, and which are
 * beyond chance, change.h explains; what is the same in both, matching.h.
 *
 * Heaps of one process in both (the same pid and start, of two dumps) are compared with each other.
 * The others are compared by the names of program and heap; several processes of one name are added
 * up. If there is one process or one heap on each side, their names need not agree.
 */
#ifndef HEAPPROFD_COMPARE_DIFF_H
#define HEAPPROFD_COMPARE_DIFF_H

#include "compare/change.h"
#include "export/view.h"
#include "profile/folding.h"
#include "profile/rollup.h"

enum diff_by {
    DIFF_CALLSITE,
    DIFF_FUNCTION, /* with all that it calls */
    DIFF_MODULE,   /* with all that it calls */
    DIFF_THREAD,   /* by name; of one process, each */
    DIFF_TYPE,
    DIFF_CONTEXT,
};

/* Which processes of the two sides are the same. */
enum diff_pairing {
    DIFF_PAIR_NAMES,  /* by their names; as told above */
    DIFF_PAIR_PIDS,   /* by pid, and by name where one pid has two of them; if there is one on each
                         side, those */
    DIFF_PAIR_LABELS, /* by name and command line; Chrome's browser and GPU process by name alone */
};

/* What the five views are made of. */
enum diff_figure { DIFF_LIVE, DIFF_ALLOCATED, DIFF_PEAK, DIFF_FIGURES };
enum diff_figure diff_figure_of(enum export_view view);

/* The dumps of one side that are compared. */
struct diff_side {
    const struct profile *profile;
    const struct export_dump *dumps;
    size_t dump_count;
};

struct diff_options {
    enum diff_by by;
    bool lines; /* callsites differ by source lines, too */
    enum diff_pairing pairing;
    unsigned views; /* that are judged, each the bit 1 << enum export_view; 0: all */
    bool types;     /* by callsite: what is live of each type, too */
    /* Two callsites are the same if a table's line shows the same for them: folding_head() and its
     * next callers. foldings: of both sides; NULL: nothing is folded. */
    bool as_shown;
    const struct folding *foldings[2];
};

/* What a row has of one type, live. */
struct diff_type {
    size_t row;
    const char *type; /* DIFF_NO_TYPE: of no type */
    double gained_bytes, lost_bytes, gained_count, lost_count;
};
#define DIFF_NO_TYPE "[unknown]"

struct diff_row {
    /* A place that says what it is, in one of the two profiles. */
    const struct profile *profile;
    uint32_t callsite; /* by callsite; else PROFILE_NONE */
    uint32_t frame;    /* by function or module; else PROFILE_NONE */
    const char *label; /* by thread, type or context; else NULL */
    int32_t tid;       /* by thread of one process; else 0 */
    /* By thread: traces have no figures of single threads at the peak; these figures are all 0. */
    bool peak_is_unknown;
    struct profile_estimate before[DIFF_FIGURES], after[DIFF_FIGURES];
    struct change_parts parts[DIFF_FIGURES];
    struct change changes[EXPORT_VIEWS]; /* of what the view counts */
    /* Beyond chance. At the peak, only the total is marked where there are samples: they decide
     * which moment that is, and what a row had then depends on it. */
    bool marks[EXPORT_VIEWS];
    size_t type_first, type_count; /* in diff_pair.types, where they were asked for */
};

/* A heap that is compared: dumps of one on each side, or of several processes. */
struct diff_pair {
    struct export_dump *before, *after;
    size_t before_count, after_count;
    bool same_process;
    bool process_missing; /* on one side there is no heap of that process at all */
    bool exact;           /* every allocation was recorded, on both sides */
    bool partial;         /* the same, except that some were lost */
    struct change_sampling sampling;
    struct change_bounds bounds[DIFF_FIGURES][2]; /* of bytes; of counts */
    struct diff_row *rows; /* in no order */
    size_t row_count;
    struct diff_type *types; /* by row */
    size_t type_count;
    struct diff_row total;
};

struct diff {
    struct diff_pair *pairs;
    size_t pair_count;
};

/* NULL: no memory. */
struct diff *diff_new(const struct diff_side *before, const struct diff_side *after,
                      const struct diff_options *options);
void diff_free(struct diff *diff);

/* Whether a file of either side does not tell what the view shows: its changes mean nothing. */
bool diff_is_unknown(const struct diff_pair *pair, enum export_view view);

/* The rows that differ in a view, the greatest change first; malloc'd. NULL: no memory. */
const struct diff_row **diff_rank(const struct diff_pair *pair, enum export_view view,
                                  size_t *count);

/* What a profile's values are in a figure. */
struct profile_estimate diff_estimate_of(const struct rollup_values *values,
                                         enum diff_figure figure);

#endif
