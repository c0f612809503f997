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
    bool exact, partial; /* as in struct diff_pair */
    bool unknown;        /* the file does not contain these figures */
};

/* Make the leaves of a selection. Return 0 or -ENOMEM. */
int view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                     const struct view_selection *selection);
void view_leaves_free(struct view_leaves *leaves);

#endif
