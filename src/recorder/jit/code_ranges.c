/* SPDX-License-Identifier: Apache-2.0 */
/* Read executable mappings from /proc/PID/maps. */
#include "recorder/jit/code_ranges.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/process_maps.h"
#include "util/sorted_search.h"

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Return whether a mapping can hold generated code: no named file backs it. It is anonymous, or
 * shared memory, which some compilers map twice: once for writing, once for execution. */
static bool is_generated(const struct process_map *map)
{
    if (map->path[0] != '/')
        return map->path[0] == 0 || begins_with(map->path, "[anon") ||
               begins_with(map->path, "[heap]") || begins_with(map->path, "[stack");
    return begins_with(map->path, "/memfd:") || begins_with(map->path, "/dev/zero") ||
           begins_with(map->path, "/SYSV") || begins_with(map->path, "/dev/shm/");
}

static bool is_closed(const struct process_map *map)
{
    return !map->readable && !map->writable && !map->executable;
}

static bool is_jitdump(const char *path)
{
    const char *name = strrchr(path, '/');
    return name != NULL && fnmatch("/jit-[0-9]*.dump", name, 0) == 0;
}

/* Return the text's position in `texts`, or 0: no memory. */
static uint32_t keep_text(struct code_ranges *ranges, const char *text)
{
    size_t length = strlen(text) + 1;
    if (ranges->text_length + length > UINT32_MAX ||
        ARRAY_RESERVE(&ranges->texts, &ranges->text_capacity, ranges->text_length, length) < 0)
        return 0;
    uint32_t at = (uint32_t)ranges->text_length;
    memcpy(ranges->texts + at, text, length);
    ranges->text_length += length;
    return at;
}

static int add_range(struct code_ranges *ranges, const struct process_map *map)
{
    struct code_range range = {map->start, map->end, map->offset, 0};
    if (!is_generated(map) && map->path[0] == '/' &&
        (range.path = keep_text(ranges, map->path)) == 0)
        return -ENOMEM;
    return ARRAY_ADD(&ranges->items, &ranges->count, &ranges->capacity, range);
}

/* Take a mapping. Generated code grows into address space that was reserved beside it: a closed
 * range that adjoins generated code counts as part of it. */
static int take_map(struct code_ranges *ranges, const struct process_map *map,
                    const struct process_map *before)
{
    struct code_range *last = ranges->count > 0 ? &ranges->items[ranges->count - 1] : NULL;
    bool adjoins = last != NULL && last->end == map->start && last->path == 0;
    if (map->executable && is_jitdump(map->path)) {
        ranges->jitdump = keep_text(ranges, map->path);
        return ranges->jitdump != 0 ? 0 : -ENOMEM;
    }
    if (map->executable && map->path[0] == '[' && !is_generated(map))
        return 0; /* the kernel's code */
    bool is_room = is_closed(map) && map->inode == 0 && map->path[0] == 0;
    if (adjoins && (is_room || (map->executable && is_generated(map)))) {
        last->end = map->end;
        return 0;
    }
    if (!map->executable)
        return 0;
    int result = add_range(ranges, map);
    if (result == 0 && is_generated(map) && before->end == map->start && is_closed(before) &&
        before->inode == 0 && before->path[0] == 0)
        ranges->items[ranges->count - 1].start = before->start;
    return result;
}

static int read_maps(struct code_ranges *ranges, struct process_maps *maps)
{
    struct process_map map, before = {.path = ""};
    int result = keep_text(ranges, "") == 0 && ranges->text_length == 0 ? -ENOMEM : 0;
    while (result == 0 && ranges->count < CODE_RANGES_MAX && process_maps_next(maps, &map)) {
        result = take_map(ranges, &map, &before);
        before = map;
        before.path = map.path[0] == 0 ? "" : "/"; /* the next line overwrites the path */
    }
    return result;
}

/* Read from an open file, or from the error of opening it, and replace the ranges on success. */
static int replace_ranges(struct code_ranges *ranges, struct process_maps *maps, int opened)
{
    struct code_ranges fresh = {0};
    int result = opened < 0 ? opened : read_maps(&fresh, maps);
    int closed = process_maps_close(maps);
    if (result == 0)
        result = closed;
    /* A process that is ending has no memory left, and its file is empty. */
    if (result == 0 && fresh.count == 0)
        result = -ESRCH;
    code_ranges_clear(result == 0 ? ranges : &fresh);
    if (result == 0)
        *ranges = fresh;
    return result;
}

int code_ranges_read_file(struct code_ranges *ranges, const char *path)
{
    struct process_maps maps;
    int opened = process_maps_open_file(&maps, path);
    return replace_ranges(ranges, &maps, opened);
}

int code_ranges_read(struct code_ranges *ranges, pid_t pid)
{
    struct process_maps maps;
    int opened = process_maps_open(&maps, pid);
    return replace_ranges(ranges, &maps, opened);
}

void code_ranges_clear(struct code_ranges *ranges)
{
    free(ranges->items);
    free(ranges->texts);
    *ranges = (struct code_ranges){0};
}

const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t pc)
{
    size_t at = SORTED_SEARCH(ranges->count, i, ranges->items[i].end <= pc);
    return at < ranges->count && ranges->items[at].start <= pc ? &ranges->items[at] : NULL;
}
