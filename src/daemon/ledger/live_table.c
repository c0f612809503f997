/* SPDX-License-Identifier: Apache-2.0 */
/* A segmented hash table with linear probing. */
#include "daemon/ledger/live_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/array.h"
#include "wire/barrier.h"

#define SEGMENT_CAPACITY_FIRST 32u
#define SEGMENT_CAPACITY_MAX (1u << 30)

/* Larger segments are mapped, so that the memory of an outgrown one is released at once. In the
 * heap it could stay allocated below the new one. */
#define MAPPED_BYTES_MIN (64u << 10)

#define SIZE_IS_LARGE (1u << 31)

static struct live_sample *samples_allocate(uint32_t capacity)
{
    size_t bytes = (size_t)capacity * sizeof(struct live_sample);
    if (bytes < MAPPED_BYTES_MIN)
        return calloc(capacity, sizeof(struct live_sample));
    /* Growing fills a segment evenly, so that each page would fault at once, and twice: when its
     * empty places are read, and when one is written. MAP_POPULATE avoids both. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void samples_free(struct live_sample *samples, uint32_t capacity)
{
    size_t bytes = (size_t)capacity * sizeof(struct live_sample);
    if (bytes < MAPPED_BYTES_MIN)
        free(samples);
    else
        munmap(samples, bytes);
}

void live_table_init(struct live_table *table)
{
    memset(table, 0, sizeof(*table));
    table->large_free = UINT32_MAX;
}

void live_table_clear(struct live_table *table)
{
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++)
        samples_free(table->segments[i].samples, table->segments[i].capacity);
    free(table->large_sizes);
    live_table_init(table);
}

static uint32_t segment_next(const struct live_segment *segment, uint32_t position)
{
    return position + 1 == segment->capacity ? 0 : position + 1;
}

static int segment_grow(struct live_segment *segment)
{
    struct live_segment grown = {.count = segment->count};
    grown.capacity = segment->capacity == 0 ? SEGMENT_CAPACITY_FIRST : segment->capacity * 2;
    if (grown.capacity > SEGMENT_CAPACITY_MAX)
        return -ENOMEM;
    grown.samples = samples_allocate(grown.capacity);
    if (grown.samples == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < segment->capacity; i++) {
        const struct live_sample *sample = &segment->samples[i];
        if (sample->key == 0)
            continue;
        uint32_t position = live_table_home(&grown, live_table_hash(sample->key));
        while (grown.samples[position].key != 0)
            position = segment_next(&grown, position);
        grown.samples[position] = *sample;
    }
    samples_free(segment->samples, segment->capacity);
    *segment = grown;
    return 0;
}

static struct live_sample *put_zero(struct live_table *table, bool *added)
{
    *added = !table->has_zero;
    table->has_zero = true;
    table->count += *added;
    return &table->zero;
}

struct live_sample *live_table_put(struct live_table *table, uint64_t key, bool *added)
{
    if (unlikely(key == 0))
        return put_zero(table, added);
    uint64_t hash = live_table_hash(key);
    struct live_segment *segment = &table->segments[hash >> 58];
    /* Full at 0.7: a search for an absent key then takes six probes, three cache lines. */
    if ((uint64_t)segment->count * 10 >= (uint64_t)segment->capacity * 7 &&
        segment_grow(segment) < 0)
        return NULL;
    uint32_t position = live_table_home(segment, hash);
    for (;;) {
        struct live_sample *sample = &segment->samples[position];
        if (sample->key == key) {
            *added = false;
            return sample;
        }
        if (sample->key == 0) {
            sample->key = key;
            segment->count++;
            table->count++;
            *added = true;
            return sample;
        }
        position = segment_next(segment, position);
    }
}

const struct live_sample *live_table_find(const struct live_table *table, uint64_t key)
{
    uint64_t hash = live_table_hash(key);
    const struct live_segment *segment = &table->segments[hash >> 58];
    if (unlikely(key == 0))
        return table->has_zero ? &table->zero : NULL;
    if (segment->count == 0)
        return NULL;
    uint32_t position = live_table_home(segment, hash);
    while (segment->samples[position].key != key) {
        if (segment->samples[position].key == 0)
            return NULL;
        position = segment_next(segment, position);
    }
    return &segment->samples[position];
}

/* Close the gap at `hole`: move up every later sample of the run that may be there, so that no
 * search stops too early at an empty place. */
static void segment_close_gap(struct live_segment *segment, uint32_t hole)
{
    uint32_t position = hole;
    for (;;) {
        position = segment_next(segment, position);
        const struct live_sample *sample = &segment->samples[position];
        if (sample->key == 0)
            break;
        uint32_t home = live_table_home(segment, live_table_hash(sample->key));
        bool stays =
            hole < position ? home > hole && home <= position : home > hole || home <= position;
        if (stays)
            continue;
        segment->samples[hole] = *sample;
        hole = position;
    }
    segment->samples[hole].key = 0;
}

bool live_table_remove(struct live_table *table, uint64_t key, struct live_sample *removed)
{
    const struct live_sample *sample = live_table_find(table, key);
    if (sample == NULL)
        return false;
    *removed = *sample;
    table->count--;
    if (unlikely(key == 0)) {
        table->has_zero = false;
        return true;
    }
    struct live_segment *segment = &table->segments[live_table_hash(key) >> 58];
    segment_close_gap(segment, (uint32_t)(sample - segment->samples));
    segment->count--;
    return true;
}

int live_table_size_pack(struct live_table *table, uint64_t size, uint32_t *packed)
{
    if (size < SIZE_IS_LARGE) {
        *packed = (uint32_t)size;
        return 0;
    }
    uint32_t index = table->large_free;
    if (index != UINT32_MAX) {
        table->large_free = (uint32_t)table->large_sizes[index];
    } else {
        if (table->large_count >= SIZE_IS_LARGE ||
            ARRAY_RESERVE(&table->large_sizes, &table->large_capacity, table->large_count, 1) < 0)
            return -ENOMEM;
        index = (uint32_t)table->large_count++;
    }
    table->large_sizes[index] = size;
    *packed = index | SIZE_IS_LARGE;
    return 0;
}

uint64_t live_table_size(const struct live_table *table, uint32_t packed)
{
    return packed & SIZE_IS_LARGE ? table->large_sizes[packed & ~SIZE_IS_LARGE] : packed;
}

void live_table_size_release(struct live_table *table, uint32_t packed)
{
    if (!(packed & SIZE_IS_LARGE))
        return;
    uint32_t index = packed & ~SIZE_IS_LARGE;
    table->large_sizes[index] = table->large_free;
    table->large_free = index;
}
