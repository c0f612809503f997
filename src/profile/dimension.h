/* SPDX-License-Identifier: Apache-2.0 */
/* What the samples of a dump, or of a difference, are summed up by, and the words for it. */
#ifndef HEAPPROFD_PROFILE_DIMENSION_H
#define HEAPPROFD_PROFILE_DIMENSION_H

#include <stdbool.h>

enum dimension {
    DIMENSION_CALLSITE,
    DIMENSION_FUNCTION,
    DIMENSION_MODULE,
    DIMENSION_THREAD,
    DIMENSION_TYPE,
    DIMENSION_CONTEXT,
    DIMENSIONS,
};

/* "callsite" and so on, for options and JSON; NULL at the end. */
extern const char *const dimension_names[DIMENSIONS + 1];

struct dimension_info {
    const char *head;    /* of the column with its rows */
    const char *nothing; /* the row of what has no name, no type or no context */
    bool on_stacks;      /* a stack counts once in the row of each of its frames (tree_sums.h) */
};
extern const struct dimension_info dimension_info[DIMENSIONS];

#endif
