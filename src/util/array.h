/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array: a pointer, its capacity and the number of items in use. */
#ifndef HEAPPROFD_UTIL_ARRAY_H
#define HEAPPROFD_UTIL_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Grow *items if needed, so that it holds at least `used` + `more` items of `item_bytes` each;
 * `used` of its *capacity items are in use. Return 0, or -ENOMEM with the array unchanged. */
static inline int array_reserve(void *items, size_t *capacity, size_t used, size_t more,
                                size_t item_bytes)
{
    if (more <= *capacity - used)
        return 0;
    if (more > SIZE_MAX / 2 / item_bytes - used)
        return -ENOMEM;
    /* Start small for large items: a file may contain any number of lists of one item. */
    size_t wanted = used + used / 2 + (item_bytes < 64 ? 8 : 1);
    if (wanted < used + more)
        wanted = used + more;
    void *grown = reallocarray(*(void **)items, wanted, item_bytes);
    if (grown == NULL)
        return -ENOMEM;
    *(void **)items = grown;
    *capacity = wanted;
    return 0;
}

/* The same, with the size of the items that the pointer points to. */
#define ARRAY_RESERVE(items, capacity, used, more)                                                 \
    array_reserve(items, capacity, used, more, sizeof(**(items)))

/* Append an item. Return 0, or -ENOMEM with the array unchanged. */
#define ARRAY_ADD(items, count, capacity, item)                                                    \
    (ARRAY_RESERVE(items, capacity, *(count), 1) < 0 ? -ENOMEM                                     \
                                                     : ((*(items))[(*(count))++] = (item), 0))

#endif
