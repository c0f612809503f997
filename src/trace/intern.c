/* See intern.h. */
#include "trace/intern.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void intern_free(struct intern_table *table)
{
    free(table->entries);
    *table = (struct intern_table){0};
}

static struct intern_entry *find_slot(const struct intern_table *table, uint64_t low, uint64_t high)
{
    size_t mask = table->size - 1;
    /* At most three quarters are in use, so an empty slot ends every search. */
    for (size_t at = low & mask;; at = (at + 1) & mask) {
        struct intern_entry *entry = &table->entries[at];
        if (entry->id == 0 || (entry->low == low && entry->high == high))
            return entry;
    }
}

static bool make_room(struct intern_table *table)
{
    if (table->size != 0 && table->count < table->size / 4 * 3)
        return true;
    struct intern_table grown = {.size = table->size == 0 ? 256 : table->size * 2,
                                 .count = table->count};
    grown.entries = calloc(grown.size, sizeof(*grown.entries));
    if (grown.entries == NULL)
        return false;
    for (size_t i = 0; i < table->size; i++) {
        if (table->entries[i].id != 0)
            *find_slot(&grown, table->entries[i].low, table->entries[i].high) = table->entries[i];
    }
    free(table->entries);
    *table = grown;
    return true;
}

uint64_t intern_bytes(struct intern_table *table, const void *bytes, size_t length, bool *added)
{
    *added = false;
    if (!make_room(table))
        return 0;
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    struct intern_entry *entry = find_slot(table, hash.low64, hash.high64);
    if (entry->id == 0) {
        *entry = (struct intern_entry){hash.low64, hash.high64, ++table->count};
        *added = true;
    }
    return entry->id;
}

uint64_t intern_find(const struct intern_table *table, const void *bytes, size_t length)
{
    if (table->size == 0)
        return 0;
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    return find_slot(table, hash.low64, hash.high64)->id;
}
