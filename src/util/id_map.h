/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map 64-bit ids to 32-bit indexes. Most writers count their ids up; those are in an array, which
 * begins with a small id, or where a run of successive ids began. All other ids are in an
 * open-addressing hash table. Its hash has a secret key, so that no file can choose ids that
 * collide.
 */
#ifndef HEAPPROFD_UTIL_ID_MAP_H
#define HEAPPROFD_UTIL_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "util/keyed_hash.h"
#include "util/prefetch.h"

#define ID_MAP_NONE UINT32_MAX

struct id_map {
    uint32_t *array; /* index by id - base; ID_MAP_NONE: perhaps the table has the id */
    size_t array_size, array_count;
    uint64_t base;
    uint64_t next; /* after the id that was added to the table last */
    size_t run;    /* number of ids before `next`, one after the other, that are in the table */
    struct id_map_entry {
        uint64_t id;
        uint32_t index, used;
    } * entries;
    size_t size;  /* of the table: a power of two, or 0 */
    size_t count; /* entries in use */
};

/* Forget all ids. The memory stays allocated. */
void id_map_clear(struct id_map *map);
void id_map_free(struct id_map *map);

/* Return the entry of an id, or the empty one for it. At least a quarter of the entries is empty,
 * so the search ends. */
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
    if (id - map->base < map->array_size && map->array[id - map->base] != ID_MAP_NONE)
        return map->array[id - map->base];
    if (map->size == 0)
        return ID_MAP_NONE;
    const struct id_map_entry *entry = id_map_slot(map, id);
    return entry->used ? entry->index : ID_MAP_NONE;
}

/* Forget an id. */
void id_map_forget(struct id_map *map, uint64_t id);

/* The slow path of id_map_set(): the array has no place for the id, or the id is to be forgotten.
 */
int id_map_set_slow(struct id_map *map, uint64_t id, uint32_t index);

/* Set or replace the index of an id. ID_MAP_NONE forgets it. Return 0 or -ENOMEM. */
static inline int id_map_set(struct id_map *map, uint64_t id, uint32_t index)
{
    uint64_t at = id - map->base;
    if (at >= map->array_size || index == ID_MAP_NONE)
        return id_map_set_slow(map, id, index);
    map->array_count += map->array[at] == ID_MAP_NONE;
    map->array[at] = index;
    return 0;
}

/* Return the number of ids or more: the table counts forgotten ids, too. */
static inline size_t id_map_count(const struct id_map *map)
{
    return map->array_count + map->count;
}

/* Prefetch the entry that id_map_find() reads for an id in the table. */
PREFETCHING id_map_prefetch(const struct id_map *map, uint64_t id)
{
    if (map->size > 0)
        __builtin_prefetch(&map->entries[keyed_hash(id) & (map->size - 1)]);
}

#endif
