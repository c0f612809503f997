/* SPDX-License-Identifier: Apache-2.0 */
/* Add ids to a map, and grow its array and its table. */
#include "util/id_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* First sizes. That of the table is small: a file of many processes has several maps for each. */
#define ARRAY_FIRST 64u
#define TABLE_FIRST 16u

/* Make the array long enough for this id. */
static int grow_array(struct id_map *map, uint64_t id)
{
    size_t size = (size_t)id + (size_t)id / 2 + ARRAY_FIRST;
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
    if (id < map->array_size && map->array[id] != ID_MAP_NONE) {
        map->array[id] = ID_MAP_NONE;
        map->array_count--;
    }
    struct id_map_entry *entry = map->size > 0 ? id_map_slot(map, id) : NULL;
    if (entry != NULL && entry->used)
        entry->index = ID_MAP_NONE; /* keep the entry: searches for other ids pass it */
}

int id_map_set_slow(struct id_map *map, uint64_t id, uint32_t index)
{
    if (index == ID_MAP_NONE) {
        id_map_forget(map, id);
        return 0;
    }
    /* Grow the array only if at least a quarter of it, apart from its first places, is in use. */
    if (id < 2 * map->array_count + ARRAY_FIRST)
        return grow_array(map, id) < 0 ? -ENOMEM : id_map_set(map, id, index);
    if (map->count >= map->size / 4 * 3 && grow_table(map) < 0)
        return -ENOMEM;
    struct id_map_entry *entry = id_map_slot(map, id);
    map->count += !entry->used;
    *entry = (struct id_map_entry){id, index, 1};
    return 0;
}

void id_map_clear(struct id_map *map)
{
    if (map->array_size > 0)
        memset(map->array, 0xff, map->array_size * sizeof(*map->array));
    if (map->size > 0)
        memset(map->entries, 0, map->size * sizeof(*map->entries));
    map->array_count = map->count = 0;
}

void id_map_free(struct id_map *map)
{
    free(map->array);
    free(map->entries);
    *map = (struct id_map){0};
}
