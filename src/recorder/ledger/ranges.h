/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live memory of a heap of ranges (libc.mmap): which allocation each part of it belongs to.
 *
 * Unmapping need not follow the borders of what was mapped. It may shrink a range, split it in two,
 * or remove many at once. So an allocation has one or more pieces, which do not overlap any others,
 * and it lives until its last piece is unmapped. Pieces are in a treap ordered by address (Seidel
 * and Aragon, 1996): O(log n) whatever is mapped in whatever order, 80 bytes a range. Each piece
 * has the oldest position in its subtree, so that a cut that spares newer pieces skips subtrees
 * without older ones.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_RANGES_H
#define HEAPPROFD_RECORDER_LEDGER_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Far above the number of mappings that Linux allows a process (65530 by default; adjacent mappings
 * that it merges are several here). */
#define RANGES_MAX (4u << 20)

/* What the pieces of one allocation share. */
struct range_allocation {
    uint64_t address, size;
    uint64_t position; /* of its record in the ring: orders it among the unmap calls */
    uint64_t time_ms;
    uint32_t figures, ordinal;
    uint32_t pieces; /* number of its pieces; 0: unused, and `figures` is the next unused entry */
};

struct range_piece {
    uint64_t start, end;
    uint64_t oldest; /* lowest position in this subtree */
    uint32_t allocation;
    uint32_t priority;
    uint32_t left, right; /* indexes; 0: none */
};

struct ranges {
    struct range_piece *pieces; /* entry 0 means none */
    size_t piece_count, piece_capacity;
    uint32_t free_piece; /* head of a list through `left` */
    struct range_allocation *allocations;
    size_t allocation_count, allocation_capacity;
    uint32_t free_allocation; /* head of the list of unused entries: index + 1; 0: empty */
    uint32_t root;
    uint32_t live_pieces;
    uint64_t random;
};

/* Called for each removed piece, in order of addresses. allocation->pieces is the number of pieces
 * left; 0 is the end of the allocation. */
typedef void ranges_freed(void *context, const struct range_allocation *allocation, uint64_t bytes);

void ranges_init(struct ranges *ranges, uint64_t seed);
void ranges_clear(struct ranges *ranges);

/* Remove what is in [start, end) and older than position `before`. Return 0, or -ENOMEM with
 * nothing changed. */
int ranges_cut(struct ranges *ranges, uint64_t start, uint64_t end, uint64_t before,
               ranges_freed *freed, void *context);

/* Cut everything in [allocation->address, + size), and add the allocation there. Its size is not 0,
 * and it does not wrap. Return 0, or -ENOMEM with nothing changed. */
int ranges_add(struct ranges *ranges, const struct range_allocation *allocation,
               ranges_freed *freed, void *context);

/* Visit all pieces in order of addresses. */
void ranges_visit(const struct ranges *ranges,
                  void (*visitor)(void *context, uint64_t start, uint64_t end), void *context);

#endif
