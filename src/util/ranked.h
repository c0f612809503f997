/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the indexes of items by a figure. */
#ifndef HEAPPROFD_UTIL_RANKED_H
#define HEAPPROFD_UTIL_RANKED_H

#include <stddef.h>

struct ranked {
    size_t index;
    double rank;
};

/* Sort by rank, the highest first; equal ranks by index. */
void ranked_sort(struct ranked *items, size_t count);

#endif
