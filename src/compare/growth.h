/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call stacks have grown by how much, of a difference by callsite: the list of what may leak.
 * An entry is one call stack's own allocations (not those of what it calls), so that a function
 * that allocates and calls others that do has an entry for each.
 */
#ifndef HEAPPROFD_COMPARE_GROWTH_H
#define HEAPPROFD_COMPARE_GROWTH_H

#include "compare/diff.h"

/* An entry is strictly above those that are given. Without one for the count, a call stack that has
 * no more blocks than before, but larger ones, has grown all the same. */
struct growth_options {
    bool has_count_threshold;
    double count_threshold, size_threshold;
};

struct growth_entry {
    const struct diff_row *row;
    double size, count; /* by how much it grew, or shrank; the size is above zero */
};

struct growth_list {
    struct growth_entry *entries; /* the largest first */
    size_t count;
    double size_sum, count_sum;
};

/* What grew, or what shrank; of a difference with EXPORT_SPACE and EXPORT_OBJECTS judged. 0 or
 * -ENOMEM. */
int growth_list_make(const struct diff_pair *pair, const struct growth_options *options,
                     bool shrunk, struct growth_list *list);
void growth_list_clear(struct growth_list *list);

/* By how many calls an entry's type grew; 0 where that is a matter of rounding. */
double growth_type_count(const struct diff_type *type);
double growth_type_size(const struct diff_type *type);

#endif
