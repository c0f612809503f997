/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact set of live sampled addresses. A free looks its address up here, and only frees of
 * sampled memory are reported.
 *
 * Level 0 maps the address space directly. Memory of five to nine sampling intervals, which holds
 * as many samples on average, shares one cache line of fifteen places. So a free reads one line,
 * frees of neighbouring memory read the same line, and pages of the table whose memory holds no
 * sample are never touched. A full line counts its addresses in deeper levels. Those are hashed,
 * and each is larger than the one before. For an address of a full line, free first reads a counter
 * of the overflowed addresses near it, and searches deeper levels only if the counter is not 0.
 *
 * Few of malloc's lines are full at intervals above 256, as long as level 0 describes the whole
 * heap (8 GiB at 4096). So the first of its deeper levels is small: few addresses touch few pages.
 * Its first two levels are mapped from the start, because a program may restrict its system calls
 * later.
 *
 * Lock-free. An address is in the set at most once: it is inserted before its owner knows it, and
 * removed before the allocator can reuse it. So a look-up only has to see the insertion of its own
 * address. The program orders that insertion before the look-up when it hands the pointer over.
 * There are no false negatives.
 *
 * A filter counts the addresses in each small stretch of memory. Nearly all stretches have none, so
 * a free asks live_set_has_near() first, in a third of the instructions. At small intervals, and in
 * a set of very many addresses, nearly every stretch would have one. The filter then counts nothing
 * and is always true, so that a free reads one line that depends on its address, not two. A set
 * whose interval may become longer counts all the same, so that frees can ask the filter later.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_LIVE_SET_H
#define HEAPPROFD_CLIENT_SAMPLE_LIVE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/arch/counter.h"
#include "client/arch/vector.h"
#include "wire/barrier.h"

#define LIVE_SET_LINE_PLACES 15
#define LIVE_SET_BUCKET_ADDRESSES 7
#define LIVE_SET_LEVELS 9

/* Counters of overflowed addresses: 1 MiB of address space, of which only used pages are touched.
 */
#define LIVE_SET_COUNTERS (UINT32_C(1) << 20)

/* Counters of the addresses near each other: 1 MiB, of which only used pages are touched. */
#define LIVE_SET_NEAR_COUNTERS (UINT32_C(1) << 20)

struct live_set_line {
    uint32_t overflow;                    /* addresses of this line in deeper levels */
    uint32_t place[LIVE_SET_LINE_PLACES]; /* live_set_place() of an address; 0: free */
} __attribute__((aligned(64)));

struct live_set_bucket {
    uint64_t overflow; /* addresses of this bucket in still deeper levels */
    uint64_t address[LIVE_SET_BUCKET_ADDRESSES]; /* 0: free */
} __attribute__((aligned(64)));

struct live_set {
    /* LIVE_SET_NEAR_COUNTERS: the addresses in each 2^near_shift bytes. As the distance from
     * live_set_nothing, which needs no relocation. */
    uintptr_t near;
    uint32_t near_shift;
    uint32_t count_shift; /* near_shift when frees ask the filter; LIVE_SET_NEAR_NOTHING_SHIFT: it
                             does not count */
    struct live_set_line *level0;
    uint32_t mask0; /* lines of level 0, less one */
    /* Places with equal bits from here up share a line. */
    uint32_t region_shift;
    struct live_set_bucket *deeper[LIVE_SET_LEVELS]; /* [0] unused */
    /* LIVE_SET_COUNTERS: the overflowed addresses in each 2^counter_shift bytes. One that reaches
     * 255 stays there. */
    uint8_t *counters;
    uint32_t counter_shift;
    int small_levels; /* number of small levels in front of the others: 0 or 1 */
    /* Of the filter's last insertions: all, and those beside another address. Threads may lose each
     * other's counts. Samples write them, so they are not in the line that each free reads. */
    uint16_t near_insertions __attribute__((aligned(64)));
    uint16_t near_collisions;
    bool keeps_counting; /* also if frees do not ask the filter: they may ask it again */
};

/* The filter of a set that is not initialized: a shift that leaves one bit of an address, and for
 * that two counters. Those of `nothing` are 0. Those of `anything` are not: a free takes the slow
 * path until the real functions are known. */
#define LIVE_SET_NEAR_NOTHING_SHIFT 63u
extern __attribute__((visibility("hidden"))) struct live_set_nothing {
    uint8_t nothing[2], anything[2];
} live_set_nothing;
#define LIVE_SET_NEAR_NOTHING 0
#define LIVE_SET_NEAR_ANYTHING offsetof(struct live_set_nothing, anything)

/* Initialize an empty set for this interval. Return 0 or -ENOMEM. A set that is searched before
 * that has LIVE_SET_NEAR_NOTHING_SHIFT. */
int live_set_init(struct live_set *set, uint64_t interval_bytes);
/* The same for blocks that are at least 32 bytes apart, mostly. */
int live_set_init_for_malloc(struct live_set *set, uint64_t interval_bytes);
/* The same with the smallest level 0, for custom heaps: there may be hundreds. */
int live_set_init_small(struct live_set *set, uint64_t interval_bytes);

/* The interval of the set, which is empty, may change between this one and longer ones. Call it
 * after the initialization. */
void live_set_may_become_sparse(struct live_set *set);

/* Such a set gets few addresses from now on, or many again: have frees ask the filter, or not. It
 * may be called at any time. */
void live_set_expect_few(struct live_set *set, bool few);

/* Empty the set and give its memory back. No thread may insert or remove meanwhile. */
void live_set_forget(struct live_set *set);

/* Insert an address. Return false if there is no memory or no level left. */
bool live_set_insert(struct live_set *set, uint64_t address);

/* Remove an address. Return whether it was in the set. */
bool live_set_remove(struct live_set *set, uint64_t address);

/* Find the lowest address of the set in [*address, end). Return false if there is no such one. Only
 * multiples of 8 are found. Reads one cache line for each region. */
bool live_set_next(struct live_set *set, uint64_t *address, uint64_t end);

/*
 * A user-space address has bits 0 to 46, on aarch64 0 to 47. Its place is bits 3 to 34. For a given
 * place, the map from bits 35 to 47 to the line's index is one to one. So place and line together
 * identify the address exactly.
 */
#define LIVE_SET_PLACE_SHIFT 3
#define LIVE_SET_HIGH_SHIFT 35
#define LIVE_SET_HIGH_BITS 13

static inline uint32_t live_set_place(uint64_t address)
{
    return (uint32_t)(address >> LIVE_SET_PLACE_SHIFT);
}

static inline struct live_set_line *live_set_line(const struct live_set *set, uint64_t address)
{
    /* Odd, so that the product is one to one. The golden ratio (Knuth, TAOCP 6.4) spreads areas of
     * equal layout, such as threads' arenas. */
    uint32_t high = (uint32_t)(address >> LIVE_SET_HIGH_SHIFT) * UINT32_C(0x9E3779B1);
    uint32_t index = (live_set_place(address) >> load_relaxed(&set->region_shift)) ^ high;
    /* Acquire: a thread that sees a table's mask sees the table. Other threads read during init. */
    uint32_t mask = load_acquire(&set->mask0);
    return &load_relaxed(&set->level0)[index & mask];
}

static inline uint64_t live_set_hash(uint64_t address, uint32_t region_shift)
{
    return ((address >> region_shift) * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
}

/* Neighbours that are freed in a row find a line of counters warm, and share a page of them. */
static inline uint8_t *live_set_counter(const struct live_set *set, uint64_t address)
{
    uint64_t stretch = address >> (load_relaxed(&set->counter_shift) & 63);
    uint64_t page = live_set_hash(stretch, 12), place = stretch & 4095;
    return &set->counters[(page << 12 | place) & (LIVE_SET_COUNTERS - 1)];
}

/* Prefetch the cache line for an insertion of the address. Inlined always: gcc takes a function
 * that only prefetches for one without effects, and drops its calls. */
static inline __attribute__((always_inline)) void live_set_prefetch(const struct live_set *set,
                                                                    uint64_t address)
{
    __builtin_prefetch(live_set_line(set, address), 1);
}

/* Return false only if the set certainly has no address in the same small stretch of memory as this
 * one. */
static inline bool live_set_has_near(const struct live_set *set, uint64_t address)
{
    /* Acquire: a thread that sees a table's shift sees the table. Other threads read during init.
     */
    uint64_t stretch = address >> (load_acquire(&set->near_shift) & 63);
    return counter_is_set(live_set_nothing.nothing, &set->near,
                          stretch & (LIVE_SET_NEAR_COUNTERS - 1));
}

/* The thread sanitizer must see atomic loads. (gcc and clang announce it differently.) */
#if defined(__SANITIZE_THREAD__)
#define LIVE_SET_WORD_BY_WORD
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LIVE_SET_WORD_BY_WORD
#endif
#endif

/* Return whether one of the line's words equals this place. Its overflow count may equal it, too.
 */
static inline bool live_set_line_has(const struct live_set_line *line, uint32_t place)
{
#ifdef LIVE_SET_WORD_BY_WORD
    bool has = false;
    for (int i = 0; i < LIVE_SET_LINE_PLACES; i++)
        has |= load_relaxed(&line->place[i]) == place;
    return has;
#else
    /* Reading a vector reads each of its words atomically. */
    const volatile vector_u32x4 *words = (const volatile vector_u32x4 *)line;
    return vector_any((vector_u32x4)((words[0] == place) | (words[1] == place) |
                                     (words[2] == place) | (words[3] == place)));
#endif
}

/* Search the set, which is initialized, where the filter is true: reads one or two cache lines.
 * False: certainly not in the set. For NULL it is true: a free place holds 0. */
static inline bool live_set_near_might_hold(const struct live_set *set, uint64_t address)
{
    const struct live_set_line *line = live_set_line(set, address);
    if (unlikely(live_set_line_has(line, live_set_place(address))))
        return true;
    return unlikely(load_relaxed(&line->overflow) != 0) &&
           load_relaxed(live_set_counter(set, address)) != 0;
}

/* The hot path of free. False: certainly not in the set. It may be true for NULL. */
static inline bool live_set_might_hold(const struct live_set *set, uint64_t address)
{
    return unlikely(live_set_has_near(set, address)) && live_set_near_might_hold(set, address);
}

#endif
