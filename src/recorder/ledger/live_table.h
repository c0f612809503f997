/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from address to live sample: the sampled allocations of one heap that are not freed yet.
 * The key is the address, or whatever number a program gave. All 2^64 keys are distinct and valid.
 *
 * Programs allocate, and mostly free, neighbours one after the other. So samples are kept by
 * region, the 64 multiples of 16 in 1 KiB of addresses (other numbers are in regions of their own):
 * the samples of a region are side by side, and the next event mostly finds its lines in the
 * processor's caches. A hash of each address would make every event wait for another line and
 * another page.
 *
 * Regions are in a hash table with linear probing, four neighbours side by side, in 64 segments,
 * each of which doubles by itself. A region takes 32 bytes at a load of 0.35 to 0.7, and holds one
 * sample in place, or a block of 16 bytes a sample: 17 to 90 bytes a sample in all. Regions that
 * became empty stay until their segment is full.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_LIVE_TABLE_H
#define HEAPPROFD_RECORDER_LEDGER_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/ledger/live_blocks.h"
#include "util/keyed_hash.h"
#include "util/prefetch.h"
#include "wire/barrier.h"

#define LIVE_TABLE_SEGMENTS 64

/* Two in a cache line. */
struct live_region {
    uint64_t name;   /* its first place, and in the lowest 6 bits 1 + its order; 0: never used */
    uint64_t places; /* bit n: there is a sample at place n */
    union {
        struct live_sample only;   /* order 0 */
        struct live_sample *block; /* room for 2^order samples, in the order of their places */
    };
};

struct live_segment {
    struct live_region *regions;
    uint32_t capacity; /* number of regions */
    uint32_t room;     /* number of regions that may be used for the first time before it is full */
};

struct live_table {
    struct live_segment segments[LIVE_TABLE_SEGMENTS];
    size_t count;
    struct live_blocks blocks;
    /* Sizes of 2 GiB and more. Samples refer to them by index. */
    uint64_t *large_sizes;
    size_t large_count, large_capacity;
    uint32_t large_free; /* head of a list through large_sizes; UINT32_MAX: none */
};

void live_table_init(struct live_table *table);
void live_table_clear(struct live_table *table);

/* Return the sample of key, or a new one without content (*added). NULL: no memory. Valid until the
 * next put or remove. */
struct live_sample *live_table_put(struct live_table *table, uint64_t key, bool *added);

/* Return the sample of key, or NULL. */
const struct live_sample *live_table_find(const struct live_table *table, uint64_t key);

/* Copy the sample out and remove it. Return false if there is none. */
bool live_table_remove(struct live_table *table, uint64_t key, struct live_sample *removed);

/* Visit the samples of a segment, which a hash of the region chooses. Return their number. */
typedef void live_table_visitor(void *context, uint64_t key, const struct live_sample *sample);
size_t live_table_visit(const struct live_table *table, unsigned segment,
                        live_table_visitor *visitor, void *context);

/* Visit a key of each region in use, with or without samples: about `most` of them at most, a
 * random part. */
void live_table_visit_regions(const struct live_table *table, size_t most,
                              void (*visitor)(void *context, uint64_t key), void *context);

#define LIVE_TABLE_SIZE_IS_LARGE (1u << 31)

/* The slow paths of the next three functions. */
int live_table_large_add(struct live_table *table, uint64_t size, uint32_t *packed);
uint64_t live_table_large_size(const struct live_table *table, uint32_t packed);
void live_table_large_remove(struct live_table *table, uint32_t packed);

/* Convert a size to the form in samples. Return 0 or -ENOMEM. Release it with the sample. */
static inline int live_table_size_pack(struct live_table *table, uint64_t size, uint32_t *packed)
{
    if (unlikely(size >= LIVE_TABLE_SIZE_IS_LARGE))
        return live_table_large_add(table, size, packed);
    *packed = (uint32_t)size;
    return 0;
}

static inline uint64_t live_table_size(const struct live_table *table, uint32_t packed)
{
    return likely((packed & LIVE_TABLE_SIZE_IS_LARGE) == 0) ? packed
                                                            : live_table_large_size(table, packed);
}

static inline void live_table_size_release(struct live_table *table, uint32_t packed)
{
    if (unlikely((packed & LIVE_TABLE_SIZE_IS_LARGE) != 0))
        live_table_large_remove(table, packed);
}

#define LIVE_TABLE_PLACES 64u
#define LIVE_TABLE_NEIGHBOURS 4u

/* Return the number of a key's place: that of its region's first place and the place in it. */
static inline uint64_t live_table_place(uint64_t key)
{
    return key >> 4 | key << 60;
}

static inline uint64_t live_table_first(uint64_t place)
{
    return place & ~(uint64_t)(LIVE_TABLE_PLACES - 1);
}

/* Return the hash of a region's neighbourhood, by the region's first place. The highest bits choose
 * the segment. */
static inline uint64_t live_table_hash(uint64_t first)
{
    return keyed_hash(first / LIVE_TABLE_PLACES / LIVE_TABLE_NEIGHBOURS);
}

/* Return where a search for the region begins. */
static inline uint32_t live_table_home(const struct live_segment *segment, uint64_t first,
                                       uint64_t hash)
{
    uint64_t neighbourhoods = segment->capacity / LIVE_TABLE_NEIGHBOURS;
    return (uint32_t)(((hash << 6 >> 32) * neighbourhoods) >> 32) * LIVE_TABLE_NEIGHBOURS +
           first / LIVE_TABLE_PLACES % LIVE_TABLE_NEIGHBOURS;
}

/* Prefetch what a search for the key reads first: two lines, for an insertion reads two on average.
 */
PREFETCHING live_table_prefetch(const struct live_table *table, uint64_t key)
{
    uint64_t first = live_table_first(live_table_place(key)), hash = live_table_hash(first);
    const struct live_segment *segment = &table->segments[hash >> 58];
    if (segment->capacity == 0)
        return;
    const char *home = (const char *)&segment->regions[live_table_home(segment, first, hash)];
    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + 64, 1);
}

#endif
