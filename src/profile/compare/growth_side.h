/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a growth: what a run had of the four figures whose growth can be limited, in all of
 * its memory or in a part of it. The parts are a heap, by "heap:" and a pattern for its name, and
 * stacks (stack_pattern.h).
 *
 * What all of a heap ever allocated is counted, and what some stacks allocated is an estimate.
 * Suppressed stacks (budgets.h) are left out of the live bytes.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_GROWTH_SIDE_H
#define HEAPPROFD_PROFILE_COMPARE_GROWTH_SIDE_H

#include "profile/compare/budgets.h"
#include "profile/confidence_interval.h"

enum growth_figure {
    GROWTH_LIVE, /* bytes at the end */
    GROWTH_PEAK, /* bytes, of the peaks added up */
    GROWTH_ALLOCATED,
    GROWTH_CALLS,
    GROWTH_FIGURES,
};

struct growth_amount {
    double value;
    struct profile_interval interval;
    bool exact;
    bool counted;            /* an exact total, known at any interval */
    bool disagrees;          /* a counted one, with its samples: `partial` says so */
    bool lacks_frees;        /* frees were lost */
    bool absent;             /* there is no such heap */
    uint64_t interval_bytes; /* the largest; 0: unknown */
    const char *unknown;     /* why there is no figure; NULL: there is one */
    /* Why it may leave something out, in the run that is checked and in a baseline; NULL: it does
     * not. */
    const char *partial, *partial_before;
};

struct growth_side {
    const struct budget_subject *subject;
    bool *suppressed;         /* by callsite; NULL: none are */
    bool *chosen;             /* by callsite; NULL: all are */
    const char *heap_pattern; /* NULL: all heaps */
};

/* Return whether the pattern is of a heap, and the pattern for its name. NULL: it is not. */
const char *growth_heap_pattern(const char *pattern);

/* Begin with all of the subject's memory. Return 0 or -ENOMEM; then there is nothing to close. */
int growth_side_open(struct growth_side *side, const struct budgets *budgets,
                     const struct budget_subject *subject);
void growth_side_close(struct growth_side *side);

/* Choose a part; NULL: all. Return 0 or -ENOMEM. */
int growth_side_choose(struct growth_side *side, const char *pattern);
/* Return whether a heap is a part of what is chosen. */
bool growth_side_has_heap(const struct growth_side *side, const struct profile_heap *heap);
/* Return what a sample has of a figure, in bytes or calls; 0 if it is not chosen or suppressed. */
double growth_side_of_sample(const struct growth_side *side, const struct profile_sample *sample,
                             enum growth_figure figure);

struct growth_amount growth_side_measure(const struct growth_side *side, enum growth_figure figure);

#endif
