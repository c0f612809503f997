/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a selection by stack: of one dump, or of the difference of two. A leaf is a node
 * of the stack tree at which stacks end.
 */
#ifndef HEAPPROFD_VIEW_LEAVES_H
#define HEAPPROFD_VIEW_LEAVES_H

#include "profile/compare/diff.h"
#include "profile/compare/estimates.h"
#include "tools/view/answers/flame.h"
#include "tools/view/model/selection.h"

struct view_leaves {
    struct flame_leaf *items; /* one for each such node */
    size_t count;
    struct flame_sum total, left_out; /* of all stacks; of those that the filters leave out */
    struct change_sampling sampling;
    struct change_bounds bounds[2]; /* [0] of bytes, [1] of counts; of a dump: gained_most */
    enum export_view view;
    bool is_of_heap;                   /* the total is that of the whole heap, not of a part */
    bool exact, partial, same_process; /* as in struct diff_pair */
    bool unknown;                      /* the file does not contain these figures */
};

/* Make the leaves of a selection. */
void view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                      const struct view_selection *selection);
/* Return the change of a sum, in a difference. of_heap: the sum is that of the whole heap, which
 * may have stacks without samples. */
struct change view_leaves_change(const struct view_leaves *leaves, const struct flame_sum *sum,
                                 bool counts, bool of_heap);
/* Return the limits of a change; NAN: they are unknown. */
struct profile_interval view_leaves_limits(const struct view_leaves *leaves,
                                           const struct change *change);
/* Return whether parts of the heap are judged. At the peak of a sampled heap they are not: see
 * struct diff_row. */
bool view_leaves_are_judged(const struct view_leaves *leaves);
/* Mark the changes beyond chance among those of a table or a graph. At the peak of a sampled heap
 * only that of the whole heap is: see struct diff_row. */
void view_leaves_mark(const struct view_leaves *leaves, const struct change *changes, size_t count,
                      bool *marks);

void view_leaves_free(struct view_leaves *leaves);

/* Return the figure of what was retained: the most, with the lower limit of the least. of_heap: the
 * sum is that of the whole heap. */
struct estimate_shown view_retained_shown(const struct view_selection *selection,
                                          const struct flame_sum *sum, bool counts, bool of_heap);

/* --- what differs between two dumps of one heap --- */

/* Set what each side of a difference has in all, and the width. */
void view_sum_set_sides(struct flame_sum *sum, double before, double after, enum view_width width);

/* A stack that has changed; either side may be NULL. */
struct view_change {
    const struct profile_sample *before, *after;
    enum export_view view;
};

/* Call `take` for each stack that has changed between the selection's base and its dump, which are
 * of one heap. They share the samples that have not changed, which are most, so this costs much
 * less than the comparison of two profiles. */
void view_changes_walk(const struct view_selection *selection,
                       void (*take)(void *context, const struct view_change *change),
                       void *context);

/* Return the part of a sample, which may be NULL, that has the thread, type and context of another
 * one; NULL: none. */
const struct profile_part *view_part_like(const struct profile_sample *sample,
                                          const struct profile_part *other);

/* Call `take` with the change of each part of a stack, as diff_new() makes it. A side without
 * parts, or whose parts have no peak, counts as one part without a type. */
typedef void view_change_taker(void *context, const struct profile_part *part,
                               const struct flame_sum *sum);
void view_change_each(const struct view_change *change, view_change_taker *take, void *context);

#endif
