/* SPDX-License-Identifier: Apache-2.0 */
/* Find the anonymous memory of a process that no heap explains. */
#include "recorder/dump/unexplained.h"

#include <stdlib.h>

#include "util/array.h"
#include "util/heartbeat.h"
#include "util/sorted_search.h"

/* Of more mappings nothing is said. */
#define RANGES_MAX 8192u
/* Bounds, so that the ring is not kept waiting: 30 ms each. */
#define REGIONS_MAX (1u << 20)
#define PIECES_MAX (1u << 18)
#define SAMPLES_MAX (1u << 18)
/* Of less, the ledger is not asked: it would be no reason to call a figure partial. */
#define ASKED_BYTES (256u << 10)
/* A mapping with this many intervals of live bytes has a sample (95 %: the rule of three). */
#define INTERVALS_OF_SAMPLE 3u

void unexplained_clear(struct unexplained *unexplained)
{
    free(unexplained->earlier);
    free(unexplained->kept);
    *unexplained = (struct unexplained){0};
}

/* --- what explains a mapping --- */

static bool is_candidate(const struct memory_map *map)
{
    return map->kind == MEMORY_ANONYMOUS && !map->ours && !map->executable;
}

/* Return the bytes of the mapping in ranges that are ordered by address. */
static uint64_t overlap(const struct memory_range *ranges, size_t count,
                        const struct memory_map *map)
{
    uint64_t bytes = 0;
    size_t at = SORTED_SEARCH(count, i, ranges[i].end <= map->start);
    for (; at < count && ranges[at].start < map->end; at++) {
        uint64_t start = ranges[at].start > map->start ? ranges[at].start : map->start;
        uint64_t end = ranges[at].end < map->end ? ranges[at].end : map->end;
        bytes += end - start;
    }
    return bytes;
}

/* The address of a sample: its mapping is a heap's. */
static void take_region(void *context, uint64_t address)
{
    struct memory_maps *maps = context;
    struct memory_map *map = memory_maps_find(maps, address);
    heartbeat_send();
    if (map != NULL && is_candidate(map))
        map->explained_bytes = UINT64_MAX;
}

static void take_piece(void *context, uint64_t start, uint64_t end)
{
    struct memory_maps *maps = context;
    heartbeat_send();
    size_t at = SORTED_SEARCH(maps->count, i, maps->items[i].end <= start);
    for (; at < maps->count && maps->items[at].start < end; at++) {
        const struct memory_range piece = {start, end};
        maps->items[at].range_bytes += overlap(&piece, 1, &maps->items[at]);
    }
}

static void explain_by_ledger(struct memory_maps *maps, const struct unexplained_facts *facts)
{
    size_t count;
    ledger_heaps(facts->ledger, &count);
    /* The C library's malloc keeps free memory in [heap] and in its arenas only, and gives large
     * blocks mappings of their own, which the survey has taken. */
    for (size_t i = facts->is_glibc ? 1 : 0; i < count; i++)
        ledger_regions_visit(facts->ledger, i, REGIONS_MAX, take_region, maps);
    /* Pieces do not overlap. They may have been counted before. */
    for (size_t i = 0; i < maps->count; i++)
        maps->items[i].range_bytes = 0;
    ledger_pieces_visit(facts->ledger, take_piece, maps);
}

struct new_blocks {
    struct memory_maps *maps;
    size_t steps_left; /* blocks do not overlap, unless the target makes them up */
};

/* Large blocks of the C library's malloc that were made meanwhile. */
static void take_new_block(void *context, const struct ledger_live_sample *sample)
{
    struct new_blocks *blocks = context;
    struct memory_maps *maps = blocks->maps;
    const struct memory_range block = {sample->address, sample->address + sample->size};
    size_t at = SORTED_SEARCH(maps->count, i, maps->items[i].end <= block.start);
    for (; at < maps->count && maps->items[at].start < block.end && blocks->steps_left > 0; at++) {
        struct memory_map *map = &maps->items[at];
        blocks->steps_left--;
        heartbeat_send();
        uint64_t bytes = overlap(&block, 1, map);
        if (is_candidate(map) && bytes > map->explained_bytes)
            map->explained_bytes = bytes;
    }
}

/* --- the sum --- */

static uint64_t sum_up(const struct memory_maps *maps, uint64_t least_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < maps->count; i++) {
        const struct memory_map *map = &maps->items[i];
        double known = map->allocator_rss + map->allocator_swap + (double)map->explained_bytes +
                       (double)map->range_bytes;
        uint64_t bytes = map->rss_bytes + map->swap_bytes;
        if (is_candidate(map) && known < (double)bytes && bytes - (uint64_t)known > least_bytes)
            sum += bytes - (uint64_t)known;
    }
    return sum;
}

static uint64_t anonymous_of(const struct memory_snapshot *snapshot)
{
    static const enum memory_kind kinds[] = {MEMORY_ALLOCATOR,  MEMORY_OTHER_HEAPS,
                                             MEMORY_ANONYMOUS,  MEMORY_THREAD_STACKS,
                                             MEMORY_MAIN_STACK, MEMORY_FILES_WRITTEN};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        sum += snapshot->parts[kinds[i]].rss_bytes + snapshot->parts[kinds[i]].swap_bytes;
    return sum;
}

/* --- what is remembered --- */

static void remember(struct unexplained *unexplained, struct memory_range **ranges, size_t *count,
                     size_t *capacity, const struct memory_map *map)
{
    const struct memory_range range = {map->start, map->end};
    if (*count >= RANGES_MAX || ARRAY_ADD(ranges, count, capacity, range) < 0)
        unexplained->too_many = true;
}

static void remember_earlier(struct unexplained *unexplained, const struct memory_maps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        if (maps->items[i].kind == MEMORY_ANONYMOUS && maps->items[i].writable)
            remember(unexplained, &unexplained->earlier, &unexplained->earlier_count,
                     &unexplained->earlier_capacity, &maps->items[i]);
}

/* Remember the allocator's mappings, with those of before that are still mapped. */
static void remember_kept(struct unexplained *unexplained, const struct memory_maps *maps)
{
    struct memory_range *before = unexplained->kept;
    size_t before_count = unexplained->kept_count;
    unexplained->kept = NULL;
    unexplained->kept_count = unexplained->kept_capacity = 0;
    for (size_t i = 0; i < maps->count; i++) {
        const struct memory_map *map = &maps->items[i];
        bool is_kept =
            map->unnamed &&
            (map->kind == MEMORY_ALLOCATOR || map->kind == MEMORY_OTHER_HEAPS ||
             (map->kind == MEMORY_ANONYMOUS &&
              (map->explained_bytes == UINT64_MAX || overlap(before, before_count, map) > 0)));
        if (is_kept)
            remember(unexplained, &unexplained->kept, &unexplained->kept_count,
                     &unexplained->kept_capacity, map);
    }
    free(before);
}

/* --- a measurement --- */

/* Set *is_certain to whether all blocks are taken into account. */
static uint64_t measure(struct unexplained *unexplained, struct memory_maps *maps,
                        const struct unexplained_facts *facts, bool *is_certain)
{
    uint64_t least = INTERVALS_OF_SAMPLE * ledger_interval_bytes(facts->ledger);
    for (size_t i = 0; i < maps->count; i++) {
        struct memory_map *map = &maps->items[i];
        if (!is_candidate(map))
            continue;
        map->explained_bytes = overlap(unexplained->earlier, unexplained->earlier_count, map);
        if (overlap(unexplained->kept, unexplained->kept_count, map) > 0)
            map->explained_bytes = UINT64_MAX;
    }
    *is_certain = facts->drain != NULL;
    if (sum_up(maps, least) > ASKED_BYTES)
        explain_by_ledger(maps, facts);
    if (sum_up(maps, least) > ASKED_BYTES && facts->drain != NULL) {
        struct new_blocks blocks = {maps, SAMPLES_MAX};
        facts->drain(facts->context);
        explain_by_ledger(maps, facts);
        *is_certain =
            ledger_live_visit(facts->ledger, 0, SAMPLES_MAX, take_new_block, &blocks) == 1 &&
            blocks.steps_left > 0;
    }
    return sum_up(maps, least);
}

void unexplained_measure(struct unexplained *unexplained, struct memory_maps *maps,
                         const struct unexplained_facts *facts, struct memory_snapshot *snapshot)
{
    bool is_first = !unexplained->has_begun;
    unexplained->has_begun = true;
    if (is_first && !facts->from_start)
        remember_earlier(unexplained, maps);
    if (unexplained->too_many || ledger_pieces(facts->ledger) > PIECES_MAX)
        return;
    bool is_certain;
    uint64_t bytes = measure(unexplained, maps, facts, &is_certain);
    remember_kept(unexplained, maps);
    is_certain |= is_first || bytes < unexplained->last_bytes;
    uint64_t found = is_certain ? bytes : unexplained->last_bytes;
    unexplained->last_bytes = bytes;
    snapshot->has_unexplained = true;
    snapshot->unexplained = (struct memory_unexplained){found, anonymous_of(snapshot)};
    if (found >= unexplained->most.bytes)
        unexplained->most = snapshot->unexplained;
    snapshot->most_unexplained = unexplained->most;
}
