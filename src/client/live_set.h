/*
 * The exact set of sampled allocations that are still live, so that only frees
 * of sampled memory leave the process.
 *
 * Level 0 is a table of cache lines: seven addresses and a count of addresses
 * that hashed here and stand in a deeper level, because the line was full.
 * Deeper levels are four times larger each, mapped when first needed. A free
 * reads one line; behind a line that overflowed it reads a counter of those
 * addresses in deeper levels that share a hash with its own, and further lines
 * only where that is not 0.
 *
 * Lock-free. An address is in the set at most once, inserted before its owner
 * can know it and removed before the allocator can reuse it; so a look-up only
 * has to see what its own address's insertion did, which the program's own
 * hand-over of the pointer orders before it: no false negatives.
 */
#ifndef HEAPPROFD_CLIENT_LIVE_SET_H
#define HEAPPROFD_CLIENT_LIVE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/barrier.h"

#define LIVE_SET_BUCKET_ADDRESSES 7
#define LIVE_SET_LEVELS 8

/* Counters of overflowed addresses: 1 MiB of address space, touched where used. */
#define LIVE_SET_COUNTERS (UINT32_C(1) << 20)

struct live_set_bucket {
    uint64_t overflow; /* addresses of this bucket that stand in deeper levels */
    uint64_t address[LIVE_SET_BUCKET_ADDRESSES]; /* 0: free */
} __attribute__((aligned(64)));

struct live_set {
    struct live_set_bucket *level0;
    uint64_t mask0; /* buckets of level 0, less one */
    /* Addresses that share their bits from here up share a bucket: at interval T,
     * memory of about T bytes holds one sample, and neighbours one cache line. */
    uint32_t region_shift;
    struct live_set_bucket *deeper[LIVE_SET_LEVELS]; /* [0] unused */
    uint8_t *counters; /* LIVE_SET_COUNTERS; one that reaches 255 stays there */
};

/* Starts an empty set for this interval; 0 or -ENOMEM. Before the first call,
 * live_set_might_hold() is false for all but 0. */
int live_set_init(struct live_set *set, uint64_t interval_bytes);

/* Empties the set, while nobody inserts or removes, and gives its memory back. */
void live_set_forget(struct live_set *set);

/* False if there is no memory or no level left: the address is not in the set. */
bool live_set_insert(struct live_set *set, uint64_t address);

/* Whether the address was in the set. */
bool live_set_remove(struct live_set *set, uint64_t address);

static inline uint64_t live_set_hash(uint64_t address, uint32_t region_shift)
{
    /* Multiplicative hashing (Knuth, TAOCP 6.4), by 2^64 over the golden ratio. */
    return ((address >> region_shift) * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
}

/* Memory of 4 KiB shares a line of counters: neighbours that are freed in a row find it warm. */
static inline uint8_t *live_set_counter(const struct live_set *set, uint64_t address)
{
    uint64_t line = live_set_hash(address, 12), place = address >> 6 & 63;
    return &set->counters[(line << 6 | place) & (LIVE_SET_COUNTERS - 1)];
}

/* The hot path of free: one cache line or two. False: certainly not in the set. */
static inline bool live_set_might_hold(const struct live_set *set, uint64_t address)
{
    const struct live_set_bucket *bucket =
        &set->level0[live_set_hash(address, set->region_shift) & set->mask0];
#pragma GCC unroll 8
    for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++)
        if (unlikely(load_relaxed(&bucket->address[i]) == address))
            return true;
    return load_relaxed(&bucket->overflow) != 0 &&
           load_relaxed(live_set_counter(set, address)) != 0;
}

#endif
