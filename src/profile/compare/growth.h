/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists possible leaks: the call stacks of a difference by callsite that have grown. An entry is
 * one call stack's own allocations, without those of its callees, so that a function which
 * allocates and whose callees allocate has an entry for each.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_GROWTH_H
#define HEAPPROFD_PROFILE_COMPARE_GROWTH_H

#include "profile/compare/diff.h"

/* An entry must be strictly above the thresholds. Without a threshold for the count, a stack with
 * as many blocks as before, but larger ones, has grown, too. */
struct growth_options {
    bool has_count_threshold;
    double count_threshold, size_threshold;
};

struct growth_entry {
    const struct diff_row *row;
    double size, count; /* by which it grew, or shrank; the size is above zero */
};

struct growth_list {
    struct growth_entry *entries; /* the largest first */
    size_t count;
    double size_sum, count_sum;
};

/* List the entries that grew, or that shrank. The difference must include the views EXPORT_SPACE
 * and EXPORT_OBJECTS (struct diff_options). Return 0 or -ENOMEM. */
int growth_list_make(const struct diff_pair *pair, const struct growth_options *options,
                     bool shrunk, struct growth_list *list);
void growth_list_clear(struct growth_list *list);

/* Return by how many allocations, or bytes, a type grew; 0 if only rounding differs. */
double growth_type_count(const struct diff_type *type);
double growth_type_size(const struct diff_type *type);

#endif
