/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts indexes by rank, and equal ranks by index, so that the order does not depend on qsort(). */
#include "util/ranked.h"

#include <stdlib.h>

static int ranked_compare(const void *left_pointer, const void *right_pointer)
{
    const struct ranked *left = left_pointer, *right = right_pointer;
    if (left->rank != right->rank)
        return left->rank < right->rank ? 1 : -1;
    return left->index < right->index ? -1 : left->index > right->index;
}

void ranked_sort(struct ranked *items, size_t count)
{
    if (count > 1)
        qsort(items, count, sizeof(*items), ranked_compare);
}
