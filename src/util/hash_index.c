/* SPDX-License-Identifier: Apache-2.0 */
/* Grow an index: put the numbers of all items into a larger table. */
#include "util/hash_index.h"

#include <errno.h>
#include <stdlib.h>

#define SIZE_FIRST 64u
/* Three quarters of 2^32 slots. Numbers beyond would not fit into a slot. */
#define COUNT_MAX (UINT64_C(3) << 30)

int hash_index_grow(struct hash_index *index, size_t count, hash_index_hash *hash_of,
                    const void *items)
{
    struct hash_index grown = {.size = index->size == 0 ? SIZE_FIRST : index->size};
    if (count >= COUNT_MAX)
        return -ENOMEM;
    while (count >= grown.size / 4 * 3)
        grown.size *= 2;
    grown.slots = calloc(grown.size, sizeof(*grown.slots));
    if (grown.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < index->size; i++) {
        if (index->slots[i] == 0)
            continue;
        size_t place = hash_of(items, index->slots[i] - 1) & (grown.size - 1);
        while (grown.slots[place] != 0)
            place = (place + 1) & (grown.size - 1);
        grown.slots[place] = index->slots[i];
    }
    free(index->slots);
    *index = grown;
    return 0;
}

void hash_index_free(struct hash_index *index)
{
    free(index->slots);
    *index = (struct hash_index){0};
}
