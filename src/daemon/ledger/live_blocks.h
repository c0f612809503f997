/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for live samples that lie close together: blocks of 2 to 64 samples, by powers of two. A
 * block is aligned to its size, or to a cache line if it is larger. The memory is released when all
 * blocks are.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_LIVE_BLOCKS_H
#define HEAPPROFD_DAEMON_LEDGER_LIVE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct live_sample {
    uint32_t size;    /* from live_table_size_pack() */
    uint32_t figures; /* index of the ledger's figures: callsite, thread, heap, interval */
    uint32_t time_ms; /* time of the allocation */
    uint32_t ordinal; /* the thread's number of allocation calls so far */
};

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
