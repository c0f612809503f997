/* SPDX-License-Identifier: Apache-2.0 */
/* What the samples of a dump, or of a difference, are summed up by, and the words for it. */
#ifndef HEAPPROFD_PROFILE_DIMENSION_H
#define HEAPPROFD_PROFILE_DIMENSION_H

enum dimension {
    DIMENSION_CALLSITE, /* the stack */
    DIMENSION_FUNCTION, /* on the stack, once */
    DIMENSION_MODULE,   /* on the stack, once */
    DIMENSION_THREAD,
    DIMENSION_TYPE,
    DIMENSION_CONTEXT,
    DIMENSIONS,
};

/* "callsite" and so on; NULL at the end. */
extern const char *const dimension_names[DIMENSIONS + 1];

struct dimension_words {
    const char *head;    /* of a column with its rows */
    const char *nothing; /* the row of what has no name, no type or no context */
};
extern const struct dimension_words dimension_words[DIMENSIONS];

#endif
