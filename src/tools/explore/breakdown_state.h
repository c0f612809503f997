/* SPDX-License-Identifier: Apache-2.0 */
/* The internal state of a breakdown: the sites of each step, and the places of the path on a
 * stack. */
#ifndef HEAPPROFD_TOOLS_EXPLORE_BREAKDOWN_STATE_H
#define HEAPPROFD_TOOLS_EXPLORE_BREAKDOWN_STATE_H

#include "tools/explore/breakdown.h"

/* The sites of a path; `entries` NULL: all. */
struct breakdown_set {
    uint32_t *entries;
    size_t count;
    struct sites_value totals[DIFF_FIGURES][SITES_COLUMNS];
};

struct breakdown {
    const struct sites *sites;
    enum breakdown_mode mode;
    enum diff_figure figure;
    struct breakdown_step *steps;
    struct breakdown_set root, *sets; /* by step: the sites left after it */
    size_t step_count, step_capacity, set_capacity;
    uint32_t *frames; /* keys of the steps into frames, in order */
    size_t frame_count, frame_capacity;
    /* By key of any dimension: its row's index + 1, and the number of the entry last added to
     * it. */
    uint32_t *row_of, *seen_by;
    size_t key_room;
};

/* An iterator over the places of the path on a stack. */
struct breakdown_walk {
    const uint32_t *stack;
    size_t length;
    size_t at;      /* the next start to try */
    ptrdiff_t next; /* the frame after the path; < 0 or `length`: the stack ends there */
};

static inline struct breakdown_walk breakdown_walk_begin(const struct breakdown *breakdown,
                                                         const struct sites_entry *entry)
{
    const struct sites *sites = breakdown->sites;
    const struct sites_stack *stack = &sites->stacks[entry->stack];
    return (struct breakdown_walk){
        .stack = &sites->frames[stack->first],
        .length = stack->length,
        /* In the bottom-up mode a path begins at the function that allocates, which calls
         * <self>. */
        .at = breakdown->mode == BREAKDOWN_BOTTOM_UP && stack->length > 1 ? stack->length - 2 : 0,
    };
}

/* Advance to the next place where the path's frames are on the stack. Return false if there is
 * none. */
static inline bool breakdown_walk_next(const struct breakdown *breakdown,
                                       struct breakdown_walk *walk)
{
    size_t count = breakdown->frame_count;
    const uint32_t *frames = breakdown->frames;
    /* In the tree mode a path begins at the stack's start. */
    size_t end = breakdown->mode == BREAKDOWN_TREE        ? 1
                 : breakdown->mode == BREAKDOWN_BOTTOM_UP ? walk->length - 1
                                                          : walk->length;
    for (; walk->at < end; walk->at++) {
        size_t i = 0;
        ptrdiff_t step = breakdown->mode == BREAKDOWN_BOTTOM_UP ? -1 : 1;
        ptrdiff_t place = (ptrdiff_t)walk->at;
        while (i < count && place >= 0 && place < (ptrdiff_t)walk->length &&
               walk->stack[place] == frames[i]) {
            i++;
            place += step;
        }
        if (i < count)
            continue;
        walk->next = place;
        walk->at++;
        return true;
    }
    return false;
}

static inline const struct sites_entry *breakdown_entry(const struct sites *sites,
                                                        const struct breakdown_set *set, size_t i)
{
    return &sites->entries[set->entries == NULL ? i : set->entries[i]];
}

/* Finish a sum. A damaged trace may contain more frees than allocations: nothing is left. */
static inline void breakdown_end_sum(struct breakdown_row *row)
{
    for (size_t i = 0; i < SITES_COLUMNS; i++) {
        if (row->values[i].bytes < 0)
            row->values[i].bytes = 0;
        if (row->values[i].count < 0)
            row->values[i].count = 0;
    }
}

/* Return the sites left after the first `steps` steps. */
static inline const struct breakdown_set *breakdown_set_of(const struct breakdown *breakdown,
                                                           size_t steps)
{
    return steps == 0 ? &breakdown->root : &breakdown->sets[steps - 1];
}

#endif
