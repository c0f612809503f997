/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from address to live sample: the sampled allocations of one heap that are not freed yet.
 * The key is the address, or whatever number a program gave. All 2^64 keys are distinct and valid.
 *
 * Linear probing in 64 segments, each of which doubles by itself. A sample costs 24 bytes at a load
 * of 0.35 to 0.7 (34 to 69 bytes), and growing keeps only a small part of the table twice. While
 * the table grows, doubling costs 35 ns less an event than growing by half. A look-up mostly reads
 * one cache line, and prefetching hides it. Huge pages brought nothing: the kernel needs as
 * much time to clear them as they save in look-ups.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_LIVE_TABLE_H
#define HEAPPROFD_DAEMON_LEDGER_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/keyed_hash.h"
#include "util/prefetch.h"

#define LIVE_TABLE_SEGMENTS 64

struct live_sample {
    uint64_t key;     /* the address; 0: empty, except in live_table.zero */
    uint32_t size;    /* from live_table_size_pack() */
    uint32_t figures; /* index of the ledger's figures: callsite, thread, heap, interval */
    uint32_t time_ms; /* time of the allocation */
    uint32_t ordinal; /* the thread's number of allocation calls so far */
};

struct live_segment {
    struct live_sample *samples;
    uint32_t capacity, count;
};

struct live_table {
    struct live_segment segments[LIVE_TABLE_SEGMENTS];
    size_t count;
    /* The sample with key 0. In segments that key marks empty places. */
    struct live_sample zero;
    bool has_zero;
    /* Sizes of 2 GiB and more. Samples refer to them by index. */
    uint64_t *large_sizes;
    size_t large_count, large_capacity;
    uint32_t large_free; /* head of a list through large_sizes; UINT32_MAX: none */
};

void live_table_init(struct live_table *table);
void live_table_clear(struct live_table *table);

/* Return the sample of key, or a new one with only key set (*added). NULL: no memory. Valid until
 * the next put or remove. */
struct live_sample *live_table_put(struct live_table *table, uint64_t key, bool *added);

/* Return the sample of key, or NULL. */
const struct live_sample *live_table_find(const struct live_table *table, uint64_t key);

/* Copy the sample out and remove it. Return false if there is none. */
bool live_table_remove(struct live_table *table, uint64_t key, struct live_sample *removed);

/* Convert a size to the form in samples. Return 0 or -ENOMEM. Release it with the sample. */
int live_table_size_pack(struct live_table *table, uint64_t size, uint32_t *packed);
uint64_t live_table_size(const struct live_table *table, uint32_t packed);
void live_table_size_release(struct live_table *table, uint32_t packed);

/* The highest bits choose the segment. */
static inline uint64_t live_table_hash(uint64_t key)
{
    return keyed_hash_high(key);
}

static inline uint32_t live_table_home(const struct live_segment *segment, uint64_t hash)
{
    return (uint32_t)(((hash << 6 >> 32) * segment->capacity) >> 32);
}

/* Prefetch what a search for the key reads first. */
PREFETCHING live_table_prefetch(const struct live_table *table, uint64_t key)
{
    uint64_t hash = live_table_hash(key);
    const struct live_segment *segment = &table->segments[hash >> 58];
    if (segment->capacity > 0)
        __builtin_prefetch(segment->samples + live_table_home(segment, hash), 1);
}

#endif
