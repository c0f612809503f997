/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search in sorted items of any type: numbers, ranges of addresses, items behind indexes. */
#ifndef HEAPPROFD_UTIL_SORTED_SEARCH_H
#define HEAPPROFD_UTIL_SORTED_SEARCH_H

#include <stddef.h>

/*
 * Return the index of the first of `count` sorted items for which `is_before` is false, or `count`.
 * `is_before` is an expression of the index `at`, true for the first items and false for the rest:
 *
 *   SORTED_SEARCH(count, at, keys[at] < key)           the first key that is not below `key`
 *   SORTED_SEARCH(count, at, ranges[at].start <= key)  1 + the last range that starts up to `key`
 *   SORTED_SEARCH(count, at, ranges[at].end <= key)    the first range that ends after `key`
 *
 * It ends after log2(count) + 1 steps even if hostile items are not sorted.
 */
#define SORTED_SEARCH(count, at, is_before)                                                        \
    ({                                                                                             \
        size_t first_ = 0, end_ = (count);                                                         \
        while (first_ < end_) {                                                                    \
            size_t at = first_ + (end_ - first_) / 2;                                              \
            if (is_before)                                                                         \
                first_ = at + 1;                                                                   \
            else                                                                                   \
                end_ = at;                                                                         \
        }                                                                                          \
        first_;                                                                                    \
    })

#endif
