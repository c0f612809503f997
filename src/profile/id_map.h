/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From 64-bit ids to 32-bit indexes. Ids that count up from small numbers, as writers give them
 * out, stand in an array; others in an open hash table, whose places no file can foresee.
 */
#ifndef HEAPPROFD_PROFILE_ID_MAP_H
#define HEAPPROFD_PROFILE_ID_MAP_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/seed.h"

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
    uint64_t seed; /* odd */
};

static inline struct id_map_entry *id_map_slot(const struct id_map *map, uint64_t id)
{
    size_t mask = map->size - 1;
    unsigned __int128 product = (unsigned __int128)(id ^ map->seed) * map->seed;
    size_t at = (size_t)((uint64_t)product ^ (uint64_t)(product >> 64)) & mask;
    while (map->entries[at].used && map->entries[at].id != id)
        at = (at + 1) & mask;
    return &map->entries[at];
}

static inline uint32_t id_map_find(const struct id_map *map, uint64_t id)
{
    if (id < map->counted_size && map->counted[id] != ID_MAP_NONE)
        return map->counted[id];
    if (map->size == 0)
        return ID_MAP_NONE;
    const struct id_map_entry *entry = id_map_slot(map, id);
    return entry->used ? entry->index : ID_MAP_NONE;
}

static inline int id_map_set_counted(struct id_map *map, uint64_t id, uint32_t index)
{
    if (id >= map->counted_size) {
        size_t size = (size_t)id + (size_t)id / 2 + 64;
        uint32_t *grown = reallocarray(map->counted, size, sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        memset(grown + map->counted_size, 0xff, (size - map->counted_size) * sizeof(*grown));
        map->counted = grown;
        map->counted_size = size;
    }
    map->counted_count += map->counted[id] == ID_MAP_NONE;
    map->counted[id] = index;
    return 0;
}

/* Sets, or replaces. 0 or -ENOMEM. */
static inline int id_map_set(struct id_map *map, uint64_t id, uint32_t index)
{
    /* At least a quarter of the array is in use. */
    if (id < map->counted_size || id < 2 * map->counted_count + 64)
        return id_map_set_counted(map, id, index);
    if (map->count >= map->size / 4 * 3) {
        struct id_map grown = {.size = map->size == 0 ? 64 : map->size * 2,
                               .seed = map->size == 0 ? seed_random() | 1 : map->seed};
        grown.entries = calloc(grown.size, sizeof(*grown.entries));
        if (grown.entries == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < map->size; i++) {
            if (map->entries[i].used)
                *id_map_slot(&grown, map->entries[i].id) = map->entries[i];
        }
        free(map->entries);
        map->entries = grown.entries;
        map->size = grown.size;
        map->seed = grown.seed;
    }
    struct id_map_entry *entry = id_map_slot(map, id);
    map->count += !entry->used;
    *entry = (struct id_map_entry){id, index, 1};
    return 0;
}

static inline void id_map_free(struct id_map *map)
{
    free(map->counted);
    free(map->entries);
    *map = (struct id_map){0};
}

#endif
