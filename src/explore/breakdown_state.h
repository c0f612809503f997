/* SPDX-License-Identifier: Apache-2.0 */
/* What the breakdown's own files share: the sites of each step, and where a path lies on a stack.
 */
#ifndef HEAPPROFD_EXPLORE_BREAKDOWN_STATE_H
#define HEAPPROFD_EXPLORE_BREAKDOWN_STATE_H

#include "explore/breakdown.h"

/* The sites that a path has; NULL entries: all. */
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
    struct breakdown_set root, *sets; /* by step: what is left behind it */
    size_t step_count, step_capacity, set_capacity;
    uint32_t *frames; /* of the steps, those into frames, from the first */
    size_t frame_count, frame_capacity;
    /* By key of any dimension: its row, where `seen` is the number of this breaking down. */
    uint32_t *row_of, *seen_by;
    size_t key_room;
};

/* Where the path's frames may go on along a stack. */
struct breakdown_walk {
    const uint32_t *stack;
    size_t length;
    size_t at;      /* the next place to look */
    ptrdiff_t next; /* the frame after the path; below 0 or length: the stack ends there */
};

static inline struct breakdown_walk breakdown_walk_begin(const struct breakdown *breakdown,
                                                         const struct sites_entry *entry)
{
    const struct sites *sites = breakdown->sites;
    const struct sites_stack *stack = &sites->stacks[entry->stack];
    return (struct breakdown_walk){
        .stack = &sites->frames[stack->first],
        .length = stack->length,
        /* In the bottom-up mode a path begins at the function that allocates, above <self>. */
        .at = breakdown->mode == BREAKDOWN_BOTTOM_UP && stack->length > 1 ? stack->length - 2 : 0,
    };
}

/* Goes to the next place where the path's frames stand on the stack; false: there is none. */
static inline bool breakdown_walk_next(const struct breakdown *breakdown,
                                       struct breakdown_walk *walk)
{
    size_t count = breakdown->frame_count;
    const uint32_t *frames = breakdown->frames;
    /* In the tree a path begins where the stack does. */
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

/* What the path has after so many steps. */
static inline const struct breakdown_set *breakdown_set_of(const struct breakdown *breakdown,
                                                           size_t steps)
{
    return steps == 0 ? &breakdown->root : &breakdown->sets[steps - 1];
}

#endif
