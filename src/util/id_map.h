/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map 64-bit ids to 32-bit indexes. Ids that count up from small numbers, as writers assign them,
 * are in an array; others are in an open hash table, whose places no file can foresee.
 */
#ifndef HEAPPROFD_UTIL_ID_MAP_H
#define HEAPPROFD_UTIL_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "util/keyed_hash.h"

#define ID_MAP_NONE UINT32_MAX

struct id_map {
    uint32_t *counted; /* indexes by id; ID_MAP_NONE: not there, but perhaps in the table */
    size_t counted_size, counted_count;
    struct id_map_entry {
        uint64_t id;
        uint32_t index, used;
    } * entries;
    size_t size; /* a power of two, or 0 */
    size_t count;
};

/* Forget all ids. The memory stays allocated. */
void id_map_clear(struct id_map *map);
void id_map_free(struct id_map *map);

/* Return the entry of an id, or the empty one for it. A quarter of the entries is empty. */
static inline struct id_map_entry *id_map_slot(const struct id_map *map, uint64_t id)
{
    size_t mask = map->size - 1, at = keyed_hash(id) & mask;
    while (map->entries[at].used && map->entries[at].id != id)
        at = (at + 1) & mask;
    return &map->entries[at];
}

/* Return the index of an id, or ID_MAP_NONE. */
static inline uint32_t id_map_find(const struct id_map *map, uint64_t id)
{
    if (id < map->counted_size && map->counted[id] != ID_MAP_NONE)
        return map->counted[id];
    if (map->size == 0)
        return ID_MAP_NONE;
    const struct id_map_entry *entry = id_map_slot(map, id);
    return entry->used ? entry->index : ID_MAP_NONE;
}

/* Forget an id. */
void id_map_forget(struct id_map *map, uint64_t id);

/* Do what id_map_set() does for an id outside of the array, or for ID_MAP_NONE. */
int id_map_set_outside(struct id_map *map, uint64_t id, uint32_t index);

/* Set or replace the index of an id. ID_MAP_NONE forgets it. Return 0 or -ENOMEM. */
static inline int id_map_set(struct id_map *map, uint64_t id, uint32_t index)
{
    if (id >= map->counted_size || index == ID_MAP_NONE)
        return id_map_set_outside(map, id, index);
    map->counted_count += map->counted[id] == ID_MAP_NONE;
    map->counted[id] = index;
    return 0;
}

/* Return at least the number of ids. */
static inline size_t id_map_count(const struct id_map *map)
{
    return map->counted_count + map->count;
}

/* Prefetch what id_map_find() reads of an id that does not count up. */
static inline void id_map_prefetch(const struct id_map *map, uint64_t id)
{
    if (map->size > 0)
        __builtin_prefetch(&map->entries[keyed_hash(id) & (map->size - 1)]);
}

#endif
