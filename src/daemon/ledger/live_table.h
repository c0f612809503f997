/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ▸ live sample: the sampled allocations of one heap that are not freed yet. The key is the
 * address, or whatever number a program gave, exactly: each of the 2^64 is one.
 *
 * Linear probing in 64 segments that double, one at a time, so that a sample
 * costs 24 bytes at a load of 0.35 to 0.7 (34 to 69 bytes) and growing holds little
 * of the table twice. Doubling costs 35 ns less an event, while the table grows, than growing by
 * half. One cache line a look-up, mostly; prefetching hides it. Huge pages brought nothing: what
 * they save in look-ups the kernel takes to clear them.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_LIVE_TABLE_H
#define HEAPPROFD_DAEMON_LEDGER_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/keyed_hash.h"

#define LIVE_TABLE_SEGMENTS 64

struct live_sample {
    uint64_t key;     /* the address; 0: no sample here, but in live_table.zero */
    uint32_t size;    /* as live_table_size_pack() made it */
    uint32_t figures; /* index into the ledger's figures: callsite, thread, heap, interval */
    uint32_t time_ms; /* of the allocation */
    uint32_t ordinal; /* the thread's allocation calls so far */
};

struct live_segment {
    struct live_sample *samples;
    uint32_t capacity, count;
};

struct live_table {
    struct live_segment segments[LIVE_TABLE_SEGMENTS];
    size_t count;
    /* The sample of key 0, which marks empty places elsewhere. */
    struct live_sample zero;
    bool has_zero;
    /* Sizes of 2 GiB and more, which a sample names by index. */
    uint64_t *large_sizes;
    size_t large_count, large_capacity;
    uint32_t large_free; /* head of a list through large_sizes; UINT32_MAX: none */
};

void live_table_init(struct live_table *table);
void live_table_clear(struct live_table *table);

/* The sample at key, or a new one with only key set (*added). NULL: no memory.
 * Valid until the next put or remove. */
struct live_sample *live_table_put(struct live_table *table, uint64_t key, bool *added);

/* The sample at key, or NULL. */
const struct live_sample *live_table_find(const struct live_table *table, uint64_t key);

/* Copies the sample out and removes it; false if there is none. */
bool live_table_remove(struct live_table *table, uint64_t key, struct live_sample *removed);

/* A size as a sample holds it; 0 or -ENOMEM. Released with the sample. */
int live_table_size_pack(struct live_table *table, uint64_t size, uint32_t *packed);
uint64_t live_table_size(const struct live_table *table, uint32_t packed);
void live_table_size_release(struct live_table *table, uint32_t packed);

/* The segment is chosen by the highest bits. */
static inline uint64_t live_table_hash(uint64_t key)
{
    return keyed_hash_high(key);
}

static inline uint32_t live_table_home(const struct live_segment *segment, uint64_t hash)
{
    return (uint32_t)(((hash << 6 >> 32) * segment->capacity) >> 32);
}

static inline void live_table_prefetch(const struct live_table *table, uint64_t key)
{
    uint64_t hash = live_table_hash(key);
    const struct live_segment *segment = &table->segments[hash >> 58];
    if (segment->capacity > 0)
        __builtin_prefetch(segment->samples + live_table_home(segment, hash), 1);
}

#endif
