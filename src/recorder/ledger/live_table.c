/* SPDX-License-Identifier: Apache-2.0 */
/* A segmented hash table of regions, and the samples in them. */
#include "recorder/ledger/live_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/array.h"
#include "wire/barrier.h"

/* The first capacity of a segment is between this and twice as much: so segments double at
 * different times. */
#define SEGMENT_CAPACITY_FIRST 16u
#define SEGMENT_CAPACITY_MAX (1u << 30)

/* Larger segments are mapped, so that the memory of an outgrown one is released at once. In the
 * heap it could stay allocated below the new one. */
#define MAPPED_BYTES_MIN (64u << 10)

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * sizeof(struct live_region);
}

static struct live_region *regions_allocate(uint32_t capacity)
{
    size_t bytes = bytes_of(capacity);
    if (bytes < MAPPED_BYTES_MIN) {
        struct live_region *regions = aligned_alloc(64, (bytes + 63) / 64 * 64);
        return regions != NULL ? memset(regions, 0, bytes) : NULL;
    }
    /* Growing fills a segment evenly, so that each page would fault at once, and twice: when its
     * empty places are read, and when one is written. MAP_POPULATE avoids both. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void regions_free(struct live_region *regions, uint32_t capacity)
{
    if (bytes_of(capacity) < MAPPED_BYTES_MIN)
        free(regions);
    else
        munmap(regions, bytes_of(capacity));
}

void live_table_init(struct live_table *table)
{
    memset(table, 0, sizeof(*table));
    table->large_free = UINT32_MAX;
}

void live_table_clear(struct live_table *table)
{
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++)
        regions_free(table->segments[i].regions, table->segments[i].capacity);
    live_blocks_clear(&table->blocks);
    free(table->large_sizes);
    live_table_init(table);
}

/* --- one region --- */

static unsigned order_of(const struct live_region *region)
{
    return (unsigned)(region->name & (LIVE_TABLE_PLACES - 1)) - 1;
}

static void set_order(struct live_region *region, unsigned order)
{
    region->name = live_table_first(region->name) | (order + 1);
}

static bool has_place(const struct live_region *region, uint64_t place)
{
    return region->places >> place % LIVE_TABLE_PLACES & 1;
}

static uint64_t bit_of(uint64_t place)
{
    return UINT64_C(1) << place % LIVE_TABLE_PLACES;
}

/* The processors that we are built for may have no instruction for this, and libgcc's function is
 * slower. */
static unsigned count_bits(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* Return the index of the first sample of a region at the place or after it. */
static unsigned index_of(const struct live_region *region, uint64_t place)
{
    return count_bits(region->places & (bit_of(place) - 1));
}

/* Return the sample of a place that has one. */
static struct live_sample *sample_at(struct live_region *region, uint64_t place)
{
    return order_of(region) == 0 ? &region->only : &region->block[index_of(region, place)];
}

/* Double the room of a full region. */
static int region_grow(struct live_table *table, struct live_region *region, unsigned count)
{
    unsigned order = order_of(region);
    struct live_sample *grown = live_blocks_take(&table->blocks, order + 1);
    if (grown == NULL)
        return -ENOMEM;
    const struct live_sample *samples = order == 0 ? &region->only : region->block;
    /* gcc would make a slow string instruction of memcpy(). */
    for (unsigned i = 0; i < count; i++)
        grown[i] = samples[i];
    if (order > 0)
        live_blocks_return(&table->blocks, region->block, order);
    region->block = grown;
    set_order(region, order + 1);
    return 0;
}

static struct live_sample *region_add(struct live_table *table, struct live_region *region,
                                      uint64_t place)
{
    unsigned count = region->places != 0 ? count_bits(region->places) : 0;
    if (count >> order_of(region) != 0 && region_grow(table, region, count) < 0)
        return NULL;
    bool is_last = region->places < bit_of(place);
    unsigned index = is_last ? count : index_of(region, place);
    region->places |= bit_of(place);
    table->count++;
    if (order_of(region) == 0)
        return &region->only;
    struct live_sample *sample = &region->block[index];
    if (!is_last)
        memmove(sample + 1, sample, (count - index) * sizeof(*sample));
    return sample;
}

static void region_remove(struct live_table *table, struct live_region *region,
                          struct live_sample *sample, uint64_t place)
{
    table->count--;
    region->places &= ~bit_of(place);
    unsigned order = order_of(region);
    if (order == 0)
        return;
    if (region->places == 0) {
        live_blocks_return(&table->blocks, region->block, order);
        set_order(region, 0);
    } else if (region->places > bit_of(place)) {
        size_t rest = &region->block[count_bits(region->places)] - sample;
        memmove(sample, sample + 1, rest * sizeof(*sample));
    }
}

/* --- regions --- */

static uint32_t segment_next(const struct live_segment *segment, uint32_t at)
{
    return at + 1 == segment->capacity ? 0 : at + 1;
}

/* Return whether it is the region with this first place. */
static bool is_region(const struct live_region *region, uint64_t first)
{
    return region->name - first - 1 < LIVE_TABLE_PLACES - 1;
}

/* Return the region with this first place, or NULL. */
static struct live_region *region_find(const struct live_table *table, uint64_t first)
{
    uint64_t hash = live_table_hash(first);
    const struct live_segment *segment = &table->segments[hash >> 58];
    if (segment->capacity == 0)
        return NULL;
    uint32_t at = live_table_home(segment, first, hash);
    while (!is_region(&segment->regions[at], first)) {
        if (segment->regions[at].name == 0)
            return NULL;
        at = segment_next(segment, at);
    }
    return &segment->regions[at];
}

/* Return the region, or else the one that may become it: the first empty one in its way, or the one
 * at its end, which was never used. */
static struct live_region *region_place(const struct live_segment *segment, uint64_t first,
                                        uint64_t hash)
{
    struct live_region *empty = NULL;
    uint32_t at = live_table_home(segment, first, hash);
    for (;; at = segment_next(segment, at)) {
        struct live_region *region = &segment->regions[at];
        if (likely(is_region(region, first)))
            return region;
        if (empty == NULL && region->places == 0)
            empty = region;
        if (region->name == 0)
            return empty;
    }
}

/* Return the capacity of a full segment after its empty regions have gone. It doubles if that
 * leaves less room than a tenth: at half of it, a heap that comes and goes took 105 bytes a sample,
 * not 83. */
static uint32_t next_capacity(const struct live_segment *segment, size_t number)
{
    uint32_t filled = 0;
    if (segment->capacity == 0)
        return SEGMENT_CAPACITY_FIRST + (uint32_t)number %
                                            (SEGMENT_CAPACITY_FIRST / LIVE_TABLE_NEIGHBOURS) *
                                            LIVE_TABLE_NEIGHBOURS;
    for (uint32_t i = 0; i < segment->capacity; i++)
        filled += segment->regions[i].places != 0;
    return filled < segment->capacity / 5 * 3 ? segment->capacity : segment->capacity * 2;
}

static __attribute__((noinline)) int segment_grow(struct live_segment *segment, size_t number)
{
    struct live_segment grown = {.capacity = next_capacity(segment, number)};
    if (grown.capacity > SEGMENT_CAPACITY_MAX)
        return -ENOMEM;
    grown.regions = regions_allocate(grown.capacity);
    if (grown.regions == NULL)
        return -ENOMEM;
    /* Full at 0.7: a search for an absent region then takes six probes, three cache lines. */
    grown.room = (uint32_t)((uint64_t)grown.capacity * 7 / 10);
    for (uint32_t i = 0; i < segment->capacity; i++) {
        const struct live_region *region = &segment->regions[i];
        if (region->places == 0)
            continue;
        uint64_t first = live_table_first(region->name);
        uint32_t at = live_table_home(&grown, first, live_table_hash(first));
        while (grown.regions[at].name != 0)
            at = segment_next(&grown, at);
        grown.regions[at] = *region;
        grown.room--;
    }
    regions_free(segment->regions, segment->capacity);
    *segment = grown;
    return 0;
}

/* Return the region with this first place. NULL: no memory. */
static struct live_region *region_intern(struct live_table *table, uint64_t first)
{
    uint64_t hash = live_table_hash(first);
    struct live_segment *segment = &table->segments[hash >> 58];
    if (unlikely(segment->room == 0) && segment_grow(segment, hash >> 58) < 0)
        return NULL;
    struct live_region *region = region_place(segment, first, hash);
    if (!is_region(region, first)) {
        segment->room -= region->name == 0;
        region->name = first | 1;
    }
    return region;
}

/* --- samples --- */

struct live_sample *live_table_put(struct live_table *table, uint64_t key, bool *added)
{
    uint64_t place = live_table_place(key);
    struct live_region *region = region_intern(table, live_table_first(place));
    if (region == NULL)
        return NULL;
    *added = !has_place(region, place);
    return likely(*added) ? region_add(table, region, place) : sample_at(region, place);
}

const struct live_sample *live_table_find(const struct live_table *table, uint64_t key)
{
    uint64_t place = live_table_place(key);
    struct live_region *region = region_find(table, live_table_first(place));
    return region != NULL && has_place(region, place) ? sample_at(region, place) : NULL;
}

bool live_table_remove(struct live_table *table, uint64_t key, struct live_sample *removed)
{
    uint64_t place = live_table_place(key);
    struct live_region *region = region_find(table, live_table_first(place));
    if (region == NULL || !has_place(region, place))
        return false;
    struct live_sample *sample = sample_at(region, place);
    *removed = *sample;
    region_remove(table, region, sample, place);
    return true;
}

size_t live_table_visit(const struct live_table *table, unsigned segment,
                        live_table_visitor *visitor, void *context)
{
    size_t visited = 0;
    for (uint32_t i = 0; i < table->segments[segment].capacity; i++) {
        struct live_region *region = &table->segments[segment].regions[i];
        for (uint64_t places = region->places; places != 0; places &= places - 1, visited++) {
            uint64_t place = live_table_first(region->name) | (unsigned)__builtin_ctzll(places);
            visitor(context, place << 4 | place >> 60, sample_at(region, place));
        }
    }
    return visited;
}

void live_table_visit_regions(const struct live_table *table, size_t most,
                              void (*visitor)(void *context, uint64_t key), void *context)
{
    size_t visited = 0;
    for (unsigned segment = 0; segment < LIVE_TABLE_SEGMENTS && visited < most; segment++)
        for (uint32_t i = 0; i < table->segments[segment].capacity; i++) {
            const struct live_region *region = &table->segments[segment].regions[i];
            uint64_t place = live_table_first(region->name);
            if (region->name == 0)
                continue;
            visitor(context, place << 4 | place >> 60);
            visited++;
        }
}

/* --- large sizes --- */

int live_table_large_add(struct live_table *table, uint64_t size, uint32_t *packed)
{
    uint32_t index = table->large_free;
    if (index != UINT32_MAX) {
        table->large_free = (uint32_t)table->large_sizes[index];
    } else {
        if (table->large_count >= LIVE_TABLE_SIZE_IS_LARGE ||
            ARRAY_RESERVE(&table->large_sizes, &table->large_capacity, table->large_count, 1) < 0)
            return -ENOMEM;
        index = (uint32_t)table->large_count++;
    }
    table->large_sizes[index] = size;
    *packed = index | LIVE_TABLE_SIZE_IS_LARGE;
    return 0;
}

uint64_t live_table_large_size(const struct live_table *table, uint32_t packed)
{
    return table->large_sizes[packed & ~LIVE_TABLE_SIZE_IS_LARGE];
}

void live_table_large_remove(struct live_table *table, uint32_t packed)
{
    uint32_t index = packed & ~LIVE_TABLE_SIZE_IS_LARGE;
    table->large_sizes[index] = table->large_free;
    table->large_free = index;
}
