/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow: room for one item more, by half at a time. */
#ifndef HEAPPROFD_UTIL_ARRAY_H
#define HEAPPROFD_UTIL_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes *items (of item_bytes each, *capacity of them, `used` in use) hold at
 * least used + more; 0 or -ENOMEM, which leaves the array as it was. */
static inline int array_reserve(void *items, size_t *capacity, size_t used, size_t more,
                                size_t item_bytes)
{
    if (more <= *capacity - used)
        return 0;
    if (more > SIZE_MAX / 2 / item_bytes - used)
        return -ENOMEM;
    /* Of large items the first few are few: files name any number of lists of one. */
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

#endif
