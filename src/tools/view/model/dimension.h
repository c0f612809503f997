/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dimensions by which a selection is divided: tables have a row for each value of one, and
 * only= keeps the part of one value.
 *
 * A trace has no size and no lifetime of single allocations, but sums by call stack. So stacks are
 * classified: by the mean size of what they hold in the selected view, and by the mean lifetime of
 * what they have freed.
 */
#ifndef HEAPPROFD_VIEW_DIMENSION_H
#define HEAPPROFD_VIEW_DIMENSION_H

#include "profile/view.h"

enum view_dimension {
    /* of stacks */
    VIEW_FUNCTION,
    VIEW_HOLDER, /* the innermost function that is the program's own, which holds the memory */
    VIEW_MODULE,
    VIEW_FILE,
    /* of parts of samples */
    VIEW_THREAD,
    VIEW_TYPE,
    VIEW_CONTEXT,
    /* of samples */
    VIEW_SIZE,
    VIEW_LIFETIME,
    VIEW_DIMENSIONS,
};
extern const char *const view_dimension_names[VIEW_DIMENSIONS];

/* Return the dimension whose name has these `length` characters; VIEW_DIMENSIONS: no dimension has
 * that name. */
enum view_dimension view_dimension_of(const char *name, size_t length);

/* Return why a heap's file cannot tell this dimension, in words; NULL: it can. */
const char *view_dimension_why_unknown(const struct profile_heap *heap,
                                       enum view_dimension dimension);

/* A class of sizes or lifetimes is named by its lower limit: bytes, a power of two or 0, or
 * milliseconds. */
#define VIEW_CLASS_NOTHING_FREED INT64_C(-1) /* of lifetimes */
#define VIEW_CLASS_UNKNOWN INT64_C(-2)

/* Return the class of a sample. */
int64_t view_size_class(const struct profile_sample *sample, enum export_view view);
int64_t view_lifetime_class(const struct profile_sample *sample);

/* Parse the class that only= names. Return VIEW_CLASS_UNKNOWN if there is no such class. */
int64_t view_class_parse(enum view_dimension dimension, const char *text);

#endif
