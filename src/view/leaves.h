/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a selection by stack: of one dump, or of the difference of two. A leaf is a node
 * of the stack tree at which stacks end.
 */
#ifndef HEAPPROFD_VIEW_LEAVES_H
#define HEAPPROFD_VIEW_LEAVES_H

#include "compare/diff.h"
#include "view/flame.h"
#include "view/selection.h"

struct view_leaves {
    struct flame_leaf *items; /* one for each such node */
    size_t count;
    struct flame_sum total, left_out; /* of all stacks; of those that the filters leave out */
    struct change_sampling sampling;
    struct change_bounds bounds[2]; /* [0] of bytes, [1] of counts; of a dump: gained_most */
    enum export_view view;
    bool is_of_heap;     /* the total is that of the whole heap, not of a part */
    bool exact, partial; /* as in struct diff_pair */
    bool unknown;        /* the file does not contain these figures */
};

/* Make the leaves of a selection. Return 0 or -ENOMEM. */
int view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                     const struct view_selection *selection);
/* Return the change of a sum, in a difference. of_heap: the sum is that of the whole heap, which
 * may have stacks without samples. */
struct change view_leaves_change(const struct view_leaves *leaves, const struct flame_sum *sum,
                                 bool counts, bool of_heap);
/* Mark the changes beyond chance among those of a table or a graph. At the peak of a sampled heap
 * only that of the whole heap is: see struct diff_row. Return 0 or -ENOMEM. */
int view_leaves_mark(const struct view_leaves *leaves, const struct change *changes, size_t count,
                     bool *marks);

void view_leaves_free(struct view_leaves *leaves);

#endif
