/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which callsites' blocks are not resident, and around which blocks much memory is free: what keeps
 * it from the kernel.
 *
 * Memory is cut into pieces of some 64 sampling intervals, a page at least. What is resident of a
 * piece and not live is charged to the callsites that have live blocks in it, each by its share. At
 * interval 1 a piece is a page.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_MEMORY_SITES_H
#define HEAPPROFD_RECORDER_DUMP_MEMORY_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/heap_dump.h"

/* Of more live samples those of a random part of the pieces are taken, which stand for all. */
#define MEMORY_SITE_BLOCKS_MAX (1u << 14)

/* A live sample. */
struct memory_site_block {
    uint32_t figures; /* of the ledger: its callsite */
    uint64_t piece;   /* number */
    bool
        is_large; /* it has its own mapping, or is larger than a piece: nothing is free around it */
    double live, taken, absent;
    double count_variance;
};

struct memory_sites {
    struct memory_site_block *blocks;
    size_t count, capacity, visited;
    unsigned halvings; /* of the part of pieces that is taken */
    uint64_t piece_bytes;
};

/* What was found, for the next dump. The figures' numbers stand for callsites. */
struct memory_sites_found {
    struct trace_memory_site items[TRACE_MEMORY_SITES_MAX];
    size_t count;
    uint64_t piece_bytes;
};

uint64_t memory_sites_piece_bytes(uint64_t interval_bytes, uint64_t page_bytes);

/* Note a live sample. */
void memory_sites_add(struct memory_sites *sites, const struct memory_site_block *block);

/* Return how much of a piece is resident; < 0: unknown. */
typedef double memory_sites_resident(void *context, uint64_t piece);

/* Find the callsites with the most memory that is absent, and, if `with_free`, around whose blocks
 * the most is free. */
void memory_sites_find(struct memory_sites *sites, bool with_free, memory_sites_resident *resident,
                       void *context, struct memory_sites_found *found);
void memory_sites_clear(struct memory_sites *sites);

#endif
