/* SPDX-License-Identifier: Apache-2.0 */
/* Read a process's smaps, and find out what each mapping is for. */
#include "recorder/dump/memory_maps.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/array.h"
#include "util/base_name.h"
#include "util/heartbeat.h"
#include "util/process_maps.h"
#include "util/sorted_search.h"

/* The kernel's default limit is 65,530. */
#define MAPS_MAX (1u << 20)
#define READ_BYTES 4096
#define GUARD_BYTES_MAX (1u << 20)
#define PAGEMAP_GUARD (UINT64_C(1) << 58) /* from Linux 6.15 on */
/* Alignment and greatest size of the C library's further arenas (HEAP_MAX_SIZE). */
#define ARENA_BYTES (64u << 20)
#define CLIENT_NAME "libheapprofd_" /* preloaded, linked or attached */

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static enum memory_kind kind_of_name(const char *name)
{
    if (name[0] == '\0' || begins_with(name, "[anon:"))
        return MEMORY_ANONYMOUS;
    if (strcmp(name, "[heap]") == 0)
        return MEMORY_ALLOCATOR;
    if (begins_with(name, "[stack"))
        return MEMORY_MAIN_STACK;
    if (name[0] == '[' && !begins_with(name, "[anon_shmem"))
        return MEMORY_KERNEL;
    if (begins_with(name, "/memfd:heapprofd") || begins_with(base_name(name), CLIENT_NAME))
        return MEMORY_PROFILER;
    if (begins_with(name, "/memfd:") || begins_with(name, "/dev/shm/") ||
        begins_with(name, "/dev/zero") || begins_with(name, "/SYSV") || name[0] == '[')
        return MEMORY_SHARED;
    return MEMORY_FILES_CLEAN;
}

static struct memory_map map_of(const struct process_map *from)
{
    struct memory_map map = {.start = from->start,
                             .end = from->end,
                             .kind = kind_of_name(from->path),
                             .readable = from->readable,
                             .writable = from->writable,
                             .executable = from->executable,
                             .unnamed = from->path[0] == '\0',
                             .is_shmem = begins_with(from->path, "/memfd:")};
    map.is_arena = map.kind == MEMORY_ALLOCATOR;
    map.is_anonymous = map.is_arena || map.kind == MEMORY_ANONYMOUS;
    map.file_is_written = (map.kind == MEMORY_FILES_CLEAN || map.kind == MEMORY_PROFILER) &&
                          map.writable && !from->shared;
    return map;
}

/* Return whether the VmFlags contain this two-letter flag, which has a blank before and after
 * it. */
static bool has_flag(const char *flags, const char *name)
{
    char padded[8];
    snprintf(padded, sizeof(padded), " %s ", name);
    return strstr(flags, padded) != NULL;
}

/* Return whether the line is the detail with this name, in KiB. */
static bool has_name(const char *line, const char *name, uint64_t *kb)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ':')
        return false;
    *kb = strtoull(line + length + 1, NULL, 10);
    return true;
}

static void read_detail(const char *line, struct memory_maps *maps)
{
    struct memory_map *map = &maps->items[maps->count - 1];
    uint64_t kb;
    /* A mapping has 24 details, and this is most of the work: few comparisons for each. */
    switch (line[0]) {
    case 'V':
        if (begins_with(line, "VmFlags:")) {
            map->is_never_huge = has_flag(line, "nh");
            map->may_have_guards = has_flag(line, "gu");
            map->ours = has_flag(line, "nr") && has_flag(line, "dd") &&
                        (map->is_never_huge || has_flag(line, "wf"));
        }
        break;
    case 'R':
        if (has_name(line, "Rss", &kb))
            map->rss_bytes = kb * 1024;
        break;
    case 'A':
        if (has_name(line, "Anonymous", &kb))
            map->anonymous_bytes = kb * 1024;
        if (has_name(line, "AnonHugePages", &kb))
            map->huge_bytes = kb * 1024;
        break;
    case 'S':
        if (has_name(line, "Shared_Clean", &kb) || has_name(line, "Shared_Dirty", &kb))
            map->shared_bytes += kb * 1024;
        if (has_name(line, "Swap", &kb))
            map->swap_bytes = kb * 1024;
        if (has_name(line, "SwapPss", &kb)) {
            maps->swap_pss_kb += kb;
            maps->has_swap_pss = true;
        }
        break;
    case 'P':
        if (has_name(line, "Pss", &kb)) {
            maps->pss_kb += kb;
            maps->has_pss = true;
        }
        break;
    default:
        break;
    }
}

static int read_lines(struct memory_maps *maps, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    int code = 0;
    while (code == 0 && (length = getline(&line, &size, file)) > 0) {
        struct process_map parsed;
        heartbeat_send();
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        /* A detail begins with its name, and so with a capital letter. A mapping begins with a
         * hexadecimal number in small letters and "-". */
        bool is_detail = line[0] >= 'A' && line[0] <= 'Z';
        if (!is_detail && process_map_parse(line, &parsed)) {
            const struct memory_map map = map_of(&parsed);
            code = maps->count < MAPS_MAX
                       ? ARRAY_ADD(&maps->items, &maps->count, &maps->capacity, map)
                       : -E2BIG;
        } else if (is_detail && maps->count > 0) {
            read_detail(line, maps);
        }
    }
    free(line);
    return code;
}

int memory_maps_read(struct memory_maps *maps, const char *path)
{
    *maps = (struct memory_maps){0};
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    /* The kernel fills a page at once. Without a buffer of ours, a quarter of it is read. */
    char buffer[READ_BYTES];
    setvbuf(file, buffer, _IOFBF, sizeof(buffer));
    int code = read_lines(maps, file);
    fclose(file);
    if (code == 0 && maps->count == 0)
        code = -ENODATA;
    if (code < 0)
        memory_maps_clear(maps);
    return code;
}

void memory_maps_clear(struct memory_maps *maps)
{
    free(maps->items);
    *maps = (struct memory_maps){0};
}

struct memory_map *memory_maps_find(const struct memory_maps *maps, uint64_t address)
{
    size_t at = SORTED_SEARCH(maps->count, i, maps->items[i].end <= address);
    return at < maps->count && maps->items[at].start <= address ? &maps->items[at] : NULL;
}

static bool is_guard(const struct memory_map *map)
{
    return map->unnamed && !map->readable && !map->writable &&
           map->end - map->start <= GUARD_BYTES_MAX;
}

void memory_maps_find_guards(struct memory_maps *maps, int pagemap, uint64_t page_bytes)
{
    for (size_t i = 0; i < maps->count; i++) {
        struct memory_map *map = &maps->items[i];
        uint64_t page = 0;
        /* Linux 6.7 gives MAP_STACK the first flag. Kernels without huge pages do not have it, and
         * those before 6.18 lack the second. */
        if (map->kind == MEMORY_ANONYMOUS && map->unnamed && map->writable && !map->ours &&
            (map->is_never_huge || map->may_have_guards) &&
            pread(pagemap, &page, sizeof(page), (off_t)(map->start / page_bytes * sizeof(page))) ==
                sizeof(page))
            map->begins_with_guard = (page & PAGEMAP_GUARD) != 0;
    }
}

/* Return whether the mapping consists of thread stacks with guard pages inside. The kernel merges
 * those that follow each other, and nothing else with them, if it marks them as never huge. */
static bool is_guarded_stack(const struct memory_map *map, uint64_t stack_limit_bytes)
{
    return map->begins_with_guard &&
           (map->is_never_huge || map->end - map->start <= stack_limit_bytes);
}

/* Return whether the mapping is an arena of the C library: it begins at a multiple of the arena
 * size, and its unused rest cannot be accessed. */
static bool is_arena(const struct memory_map *map, const struct memory_map *next)
{
    if (map->start % ARENA_BYTES != 0)
        return false;
    uint64_t end = map->start + ARENA_BYTES;
    return map->end == end || (next != NULL && next->unnamed && !next->readable &&
                               next->start == map->end && next->end >= end);
}

void memory_maps_classify(struct memory_maps *maps, uint64_t stack_limit_bytes)
{
    for (size_t i = 0; i < maps->count; i++) {
        struct memory_map *map = &maps->items[i];
        const struct memory_map *next = i + 1 < maps->count ? map + 1 : NULL;
        const struct memory_map *before = i > 0 && map[-1].end == map->start ? map - 1 : NULL;
        if (map->kind != MEMORY_ANONYMOUS)
            continue;
        if (map->ours)
            map->kind = MEMORY_PROFILER;
        else if (is_guarded_stack(map, stack_limit_bytes))
            map->kind = MEMORY_THREAD_STACKS;
        else if (map->unnamed && map->writable && is_arena(map, next))
            map->is_arena = true;
        else if (map->unnamed && map->writable && before != NULL && is_guard(before) &&
                 map->end - before->start <= stack_limit_bytes)
            map->kind = MEMORY_THREAD_STACKS;
        else if (map->unnamed && map->writable && before != NULL && before->file_is_written)
            map->kind = before->kind == MEMORY_PROFILER ? MEMORY_PROFILER
                                                        : MEMORY_FILES_WRITTEN; /* its .bss */
        if (map->is_arena)
            map->kind = MEMORY_ALLOCATOR;
    }
}

double memory_map_zeros(const struct memory_map *map)
{
    return fmax(map->doubtful_bytes - (double)map->shared_bytes, 0);
}

static void memory_maps_add(struct memory_part *part, uint64_t rss, uint64_t swap, uint64_t mapped)
{
    part->rss_bytes += rss;
    part->swap_bytes += swap;
    part->mapped_bytes += mapped;
    part->mappings++;
}

static uint64_t at_most(double wanted, uint64_t limit)
{
    return wanted < (double)limit ? (uint64_t)wanted : limit;
}

/* Add a mapping that an allocator shares with other memory. */
static void add_shared(struct memory_part parts[MEMORY_KINDS], const struct memory_map *map)
{
    uint64_t rss = at_most(map->allocator_rss, map->rss_bytes);
    uint64_t swap = at_most(map->allocator_swap, map->swap_bytes);
    /* What is left has room for what is resident in it. */
    uint64_t rest = map->rss_bytes - rss + map->swap_bytes - swap, all = map->end - map->start;
    uint64_t mapped = at_most(map->allocator_mapped, all > rest ? all - rest : 0);
    memory_maps_add(&parts[MEMORY_ALLOCATOR], rss, swap, mapped);
    memory_maps_add(&parts[map->kind], map->rss_bytes - rss, map->swap_bytes - swap, all - mapped);
}

void memory_maps_sum(const struct memory_maps *maps, struct memory_part parts[MEMORY_KINDS])
{
    memset(parts, 0, MEMORY_KINDS * sizeof(*parts));
    for (size_t i = 0; i < maps->count; i++) {
        const struct memory_map *map = &maps->items[i];
        uint64_t written = 0, mapped = map->end - map->start;
        if (map->allocator_rss + map->allocator_swap > 0 && map->kind != MEMORY_ALLOCATOR) {
            add_shared(parts, map);
            continue;
        }
        if (map->kind == MEMORY_FILES_CLEAN) {
            written = map->anonymous_bytes < map->rss_bytes ? map->anonymous_bytes : map->rss_bytes;
            uint64_t swap = map->swap_bytes;
            uint64_t private_copies = written + swap < mapped ? written + swap : mapped;
            if (written + swap > 0)
                memory_maps_add(&parts[MEMORY_FILES_WRITTEN], written, swap, private_copies);
            memory_maps_add(&parts[MEMORY_FILES_CLEAN], map->rss_bytes - written, 0,
                            mapped - private_copies);
            continue;
        }
        memory_maps_add(&parts[map->kind], map->rss_bytes, map->swap_bytes, mapped);
        /* Of mappings that are divided it is unknown which part has the huge pages. */
        parts[map->kind].huge_bytes +=
            map->huge_bytes < map->rss_bytes ? map->huge_bytes : map->rss_bytes;
    }
}
