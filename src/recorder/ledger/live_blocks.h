/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for live samples that lie close together: blocks of 2 to 64 samples, by powers of two. A
 * block is aligned to its size, or to a cache line if it is larger. The memory is released when all
 * blocks are.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_LIVE_BLOCKS_H
#define HEAPPROFD_RECORDER_LEDGER_LIVE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* So many figures take some 20 GB. */
#define LIVE_SAMPLE_FIGURES_BITS 26u
#define LIVE_SAMPLE_FIGURES_MAX (UINT32_C(1) << LIVE_SAMPLE_FIGURES_BITS)

struct live_sample {
    uint32_t size; /* from live_table_size_pack() */
    /* Index of the ledger's figures: callsite, thread, heap, interval. */
    uint32_t figures : LIVE_SAMPLE_FIGURES_BITS;
    /* Time of the allocation in milliseconds: 38 bits are eight years. */
    uint32_t time_high : 32 - LIVE_SAMPLE_FIGURES_BITS;
    uint32_t time_low;
    uint32_t ordinal; /* the thread's number of allocation calls so far */
};

static inline uint64_t live_sample_time(const struct live_sample *sample)
{
    return (uint64_t)sample->time_high << 32 | sample->time_low;
}

/* Set all but the size. */
static inline void live_sample_set(struct live_sample *sample, uint32_t figures, uint64_t time_ms,
                                   uint32_t ordinal)
{
    sample->figures = figures & (LIVE_SAMPLE_FIGURES_MAX - 1);
    sample->time_high = (uint32_t)(time_ms >> 32) & ((1u << (32 - LIVE_SAMPLE_FIGURES_BITS)) - 1);
    sample->time_low = (uint32_t)time_ms;
    sample->ordinal = ordinal;
}

#define LIVE_BLOCKS_ORDER_MAX 6u

struct live_blocks {
    struct live_free_block *free[LIVE_BLOCKS_ORDER_MAX + 1]; /* by order; NULL: none */
    char *unused, *end;        /* the part of the last chunk that no block has had yet */
    struct live_chunk *chunks; /* all memory */
};

/* Return a block of 2^order samples, without content; 1 <= order <= LIVE_BLOCKS_ORDER_MAX. NULL: no
 * memory. */
struct live_sample *live_blocks_take(struct live_blocks *blocks, unsigned order);
void live_blocks_return(struct live_blocks *blocks, struct live_sample *block, unsigned order);

/* Release all blocks. */
void live_blocks_clear(struct live_blocks *blocks);

#endif
