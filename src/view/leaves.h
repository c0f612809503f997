/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a selection by stack: of one dump, or of the difference of two. */
#ifndef HEAPPROFD_VIEW_LEAVES_H
#define HEAPPROFD_VIEW_LEAVES_H

#include "compare/diff.h"
#include "view/flame.h"
#include "view/selection.h"

struct view_leaves {
    struct flame_leaf *items; /* one for each node of the tree at which stacks end */
    size_t count;
    struct flame_sum total, left_out; /* of the whole view; of what filters leave out */
    struct change_sampling sampling;
    bool exact, partial; /* as of struct diff_pair */
    bool unknown;        /* the file does not contain these figures */
};

/* Make the leaves of a selection. Return 0 or -ENOMEM. */
int view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                     const struct view_selection *selection);
void view_leaves_free(struct view_leaves *leaves);

#endif
