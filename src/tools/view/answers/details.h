/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a heap's breakdown, for several dumps side by side: the callees or callers at the
 * end of a path, or the types of what is below it. Each row has a sum for each dump, and one of the
 * change between two of them. The page asks for a level of its tree table at a time, so a question
 * costs a pass over the samples of each dump, however large the tree is.
 */
#ifndef HEAPPROFD_VIEW_DETAILS_H
#define HEAPPROFD_VIEW_DETAILS_H

#include "tools/view/model/leaves.h"

#define DETAILS_DUMPS_MAX 4u

enum details_by { DETAILS_BY_BACKTRACE, DETAILS_BY_TYPE };

struct details_request {
    struct view_profiles *profiles;
    const struct view_selection
        *selection; /* its base, if it has one, is what changes count from */
    struct view_dump dumps[DETAILS_DUMPS_MAX];
    size_t dump_count;
    enum details_by by;
    /* Functions from the root: from the outermost (FLAME_DOWN), or from what allocates (FLAME_UP).
     */
    enum flame_direction direction;
    const uint32_t *path;
    size_t path_length;
};

struct details_row {
    uint32_t function; /* by type, and of the total without a path: STACK_NONE */
    const char *label; /* by type: its name, "" for no type */
    bool opens;        /* has further callees or callers */
    bool mark;         /* the change is beyond chance */
    struct flame_sum dumps[DETAILS_DUMPS_MAX];
    struct flame_sum change;
};

struct details {
    struct details_row *rows; /* in no order */
    size_t count, capacity;
    struct details_row total;
    bool has_types;            /* a sample of the dumps has a type, wherever it is */
    bool has_change;           /* the sums of the change are set */
    struct view_leaves leaves; /* of the change, without its stacks */
};

/* Make the rows. Return 0, or -ENOENT if no dump has the path. */
int details_make(struct details *details, const struct details_request *request);
void details_free(struct details *details);

/* Return the change of a row in bytes or calls. */
struct change details_change(const struct details *details, const struct details_row *row,
                             bool counts);

#endif
