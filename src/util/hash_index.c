/* SPDX-License-Identifier: Apache-2.0 */
/* Grow an index: put the numbers of all items into a larger table. */
#include "util/hash_index.h"

#include <errno.h>
#include <stdlib.h>

#define SIZE_FIRST 64u
#define BATCH 64u /* divides each size */
/* Three quarters of 2^32 slots. Numbers beyond would not fit into a slot. */
#define COUNT_MAX (UINT64_C(3) << 30)

/* Items are anywhere in memory. Without a branch between their loads, the processor loads several
 * at a time. */
static void move_batch(struct hash_index *to, const uint32_t slots[BATCH], hash_index_hash *hash_of,
                       const void *items)
{
    uint32_t used[BATCH];
    uint64_t hashes[BATCH];
    size_t count = 0;
    for (size_t i = 0; i < BATCH; i++) {
        used[count] = slots[i];
        count += slots[i] != 0;
    }
    for (size_t i = 0; i < count; i++)
        hashes[i] = hash_of(items, used[i] - 1);
    for (size_t i = 0; i < count; i++) {
        size_t place = hashes[i] & (to->size - 1);
        while (to->slots[place] != 0)
            place = (place + 1) & (to->size - 1);
        to->slots[place] = used[i];
    }
}

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
    for (size_t first = 0; first < index->size; first += BATCH)
        move_batch(&grown, index->slots + first, hash_of, items);
    free(index->slots);
    *index = grown;
    return 0;
}

void hash_index_free(struct hash_index *index)
{
    free(index->slots);
    *index = (struct hash_index){0};
}
