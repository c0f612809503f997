/* SPDX-License-Identifier: Apache-2.0 */
/* Cut chunks of memory into blocks, and keep lists of the free ones. */
#include "recorder/ledger/live_blocks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/barrier.h"

#define LINE_BYTES 64u

/* Chunks double up to this size. The larger ones are mapped, with their pages: that takes a third
 * of the time of as many faults. */
#define CHUNK_BYTES_FIRST (4u << 10)
#define CHUNK_BYTES_MAX (256u << 10)
#define CHUNK_BYTES_MAPPED (64u << 10)

struct live_chunk {
    struct live_chunk *next;
    size_t bytes;
};
_Static_assert(sizeof(struct live_chunk) <= LINE_BYTES, "blocks begin with the second line");

struct live_free_block {
    struct live_free_block *next;
};

static size_t bytes_of(unsigned order)
{
    return sizeof(struct live_sample) << order;
}

static struct live_chunk *chunk_allocate(size_t bytes)
{
    if (bytes < CHUNK_BYTES_MAPPED)
        return aligned_alloc(LINE_BYTES, bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static void chunk_free(struct live_chunk *chunk)
{
    if (chunk->bytes < CHUNK_BYTES_MAPPED)
        free(chunk);
    else
        munmap(chunk, chunk->bytes);
}

static void push(struct live_blocks *blocks, void *block, unsigned order)
{
    struct live_free_block *freed = block;
    freed->next = blocks->free[order];
    blocks->free[order] = freed;
}

static void *pop(struct live_blocks *blocks, unsigned order)
{
    struct live_free_block *block = blocks->free[order];
    blocks->free[order] = block->next;
    return block;
}

static int add_chunk(struct live_blocks *blocks)
{
    size_t bytes = blocks->chunks != NULL ? blocks->chunks->bytes * 2 : CHUNK_BYTES_FIRST;
    if (bytes > CHUNK_BYTES_MAX)
        bytes = CHUNK_BYTES_MAX;
    struct live_chunk *chunk = chunk_allocate(bytes);
    if (chunk == NULL)
        return -1;
    *chunk = (struct live_chunk){blocks->chunks, bytes};
    blocks->chunks = chunk;
    blocks->unused = (char *)chunk + LINE_BYTES;
    blocks->end = (char *)chunk + bytes;
    return 0;
}

/* Return a block without a list: the first part of a larger free block, or of unused memory. */
static __attribute__((noinline)) void *cut(struct live_blocks *blocks, unsigned order)
{
    for (unsigned larger = order + 1; larger <= LIVE_BLOCKS_ORDER_MAX; larger++) {
        if (blocks->free[larger] == NULL)
            continue;
        char *block = pop(blocks, larger);
        while (larger-- > order)
            push(blocks, block + bytes_of(larger), larger);
        return block;
    }
    size_t bytes = bytes_of(order);
    /* Half a line may be left over from the last block. */
    if (bytes >= LINE_BYTES && (uintptr_t)blocks->unused % LINE_BYTES != 0) {
        push(blocks, blocks->unused, 1);
        blocks->unused += bytes_of(1);
    }
    if ((size_t)(blocks->end - blocks->unused) < bytes && add_chunk(blocks) < 0)
        return NULL;
    void *block = blocks->unused;
    blocks->unused += bytes;
    return block;
}

struct live_sample *live_blocks_take(struct live_blocks *blocks, unsigned order)
{
    return likely(blocks->free[order] != NULL) ? pop(blocks, order) : cut(blocks, order);
}

void live_blocks_return(struct live_blocks *blocks, struct live_sample *block, unsigned order)
{
    push(blocks, block, order);
}

void live_blocks_clear(struct live_blocks *blocks)
{
    while (blocks->chunks != NULL) {
        struct live_chunk *chunk = blocks->chunks;
        blocks->chunks = chunk->next;
        chunk_free(chunk);
    }
    memset(blocks, 0, sizeof(*blocks));
}
