/* SPDX-License-Identifier: Apache-2.0 */
/* Map contents to ids by a hash table with open addressing. */
#include "trace/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/keyed_hash.h"

#define FIRST_SIZE_BITS 8
#define FIRST_SIZE ((size_t)1 << FIRST_SIZE_BITS)

void intern_free(struct intern_table *table)
{
    free(table->entries);
    free(table->forgotten);
    *table = (struct intern_table){0};
}

int intern_forget(struct intern_table *table)
{
    bool *forgotten = malloc((size_t)table->count + 1);
    if (forgotten == NULL)
        return -ENOMEM;
    memset(forgotten, true, (size_t)table->count + 1);
    free(table->forgotten);
    table->forgotten = forgotten;
    table->forgotten_count = table->count;
    return 0;
}

/* Find the slot of an entry. The highest bits of its hash choose its place. When the table grows,
 * the old and the new table are therefore both accessed in order, which is fast. */
static struct intern_entry *find_slot(const struct intern_table *table, uint64_t place,
                                      uint32_t check)
{
    size_t mask = table->size - 1;
    /* At most three quarters of the slots are in use, so an empty slot ends every search. */
    for (size_t at = (size_t)(place >> table->shift);; at = (at + 1) & mask) {
        struct intern_entry *entry = &table->entries[at];
        if (entry->id == 0 || (entry->place == place && entry->check == check))
            return entry;
    }
}

static bool intern_make_room(struct intern_table *table)
{
    if (table->count == UINT32_MAX)
        return false;
    if (table->count < table->size / 4 * 3)
        return true;
    struct intern_table grown = *table;
    grown.size = table->size != 0 ? table->size * 2 : FIRST_SIZE;
    grown.shift = table->size != 0 ? table->shift - 1 : 64 - FIRST_SIZE_BITS;
    grown.entries = calloc(grown.size, sizeof(*grown.entries));
    if (grown.entries == NULL)
        return false;
    for (size_t i = 0; i < table->size; i++) {
        const struct intern_entry *entry = &table->entries[i];
        if (entry->id != 0)
            *find_slot(&grown, entry->place, entry->check) = *entry;
    }
    free(table->entries);
    *table = grown;
    return true;
}

uint64_t intern_bytes(struct intern_table *table, const void *bytes, size_t length, bool *added)
{
    *added = false;
    if (!intern_make_room(table))
        return 0;
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, keyed_hash_key.left);
    struct intern_entry *entry = find_slot(table, hash.high64, (uint32_t)hash.low64);
    if (entry->id == 0) {
        *entry = (struct intern_entry){hash.high64, (uint32_t)hash.low64, ++table->count};
        *added = true;
    } else if (entry->id <= table->forgotten_count) {
        *added = table->forgotten[entry->id];
        table->forgotten[entry->id] = false;
    }
    return entry->id;
}

uint64_t intern_find(const struct intern_table *table, const void *bytes, size_t length)
{
    if (table->size == 0)
        return 0;
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, keyed_hash_key.left);
    return find_slot(table, hash.high64, (uint32_t)hash.low64)->id;
}
