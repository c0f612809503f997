/* SPDX-License-Identifier: Apache-2.0 */
/* Add ids to a map, and grow its array and its table. */
#include "util/id_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* First sizes. That of the table is small: a file of many processes has several maps for each. */
#define ARRAY_FIRST 64u
#define TABLE_FIRST 16u

/* The array begins again after so many successive ids that are not in it. */
#define RUN_MIN 32u

/* Make the array long enough for this place. */
static int grow_array(struct id_map *map, uint64_t at)
{
    size_t size = (size_t)at + (size_t)at / 2 + ARRAY_FIRST;
    uint32_t *grown = reallocarray(map->array, size, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    memset(grown + map->array_size, 0xff, (size - map->array_size) * sizeof(*grown));
    map->array = grown;
    map->array_size = size;
    return 0;
}

static int grow_table(struct id_map *map)
{
    struct id_map grown = {.size = map->size == 0 ? TABLE_FIRST : map->size * 2};
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
    return 0;
}

/* An id may be in the table and, because the array grew later, in the array, too. */
void id_map_forget(struct id_map *map, uint64_t id)
{
    uint64_t at = id - map->base;
    if (at < map->array_size && map->array[at] != ID_MAP_NONE) {
        map->array[at] = ID_MAP_NONE;
        map->array_count--;
    }
    struct id_map_entry *entry = map->size > 0 ? id_map_slot(map, id) : NULL;
    if (entry != NULL && entry->used)
        entry->index = ID_MAP_NONE; /* keep the entry: searches for other ids pass it */
}

static int add_to_table(struct id_map *map, uint64_t id, uint32_t index)
{
    if (map->count >= map->size / 4 * 3 && grow_table(map) < 0)
        return -ENOMEM;
    struct id_map_entry *entry = id_map_slot(map, id);
    map->count += !entry->used;
    *entry = (struct id_map_entry){id, index, 1};
    return 0;
}

/* Begin the array again with this id. Its ids, fewer than those of the run, go into the table. */
static int move_array(struct id_map *map, uint64_t id)
{
    for (size_t i = 0; i < map->array_size; i++) {
        if (map->array[i] == ID_MAP_NONE)
            continue;
        if (add_to_table(map, map->base + i, map->array[i]) < 0)
            return -ENOMEM;
        map->array[i] = ID_MAP_NONE;
        map->array_count--;
    }
    map->base = id;
    map->run = 0;
    return 0;
}

int id_map_set_slow(struct id_map *map, uint64_t id, uint32_t index)
{
    if (index == ID_MAP_NONE) {
        id_map_forget(map, id);
        return 0;
    }
    if (id + 1 != map->next)
        map->run = id == map->next ? map->run + 1 : 0;
    map->next = id + 1;
    if (map->run >= RUN_MIN && map->run > map->array_count && map->run > map->array_size / 8 &&
        move_array(map, id) < 0)
        return -ENOMEM;
    /* Grow the array only if at least a quarter of it, apart from its first places, is in use. */
    uint64_t at = id - map->base;
    if (at >= map->array_size && at >= 2 * map->array_count + ARRAY_FIRST)
        return add_to_table(map, id, index);
    if (at >= map->array_size && grow_array(map, at) < 0)
        return -ENOMEM;
    return id_map_set(map, id, index);
}

void id_map_clear(struct id_map *map)
{
    if (map->array_size > 0)
        memset(map->array, 0xff, map->array_size * sizeof(*map->array));
    if (map->size > 0)
        memset(map->entries, 0, map->size * sizeof(*map->entries));
    map->array_count = map->count = 0;
    map->base = map->next = map->run = 0;
}

void id_map_free(struct id_map *map)
{
    free(map->array);
    free(map->entries);
    *map = (struct id_map){0};
}
