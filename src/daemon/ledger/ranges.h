/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live memory of a heap of ranges (libc.mmap): which allocation each stretch of it belongs to.
 *
 * Unmapping need not follow the borders of what was mapped: it may cut a range, split it in two, or
 * take many at once. So an allocation is one or more pieces, disjoint from all others, and lives
 * until its last piece goes. Pieces stand in a treap ordered by address (Seidel and Aragon, 1996):
 * O(log n) whatever is mapped in whatever order, 80 bytes a range. A piece knows the oldest
 * position below it, so that a cut which spares what is newer does not look at it.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_RANGES_H
#define HEAPPROFD_DAEMON_LEDGER_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Far beyond the mappings that Linux lets a process have (65530 as a rule; neighbours that it makes
 * one are several here). */
#define RANGES_MAX (4u << 20)

/* What the pieces of one allocation share. */
struct range_allocation {
    uint64_t address, size;
    uint64_t position; /* of its record: orders it among the calls that unmap */
    uint32_t figures, time_ms, ordinal;
    uint32_t pieces; /* kept here; 0: not in use, and `figures` leads to the next such place */
};

struct range_piece {
    uint64_t start, end;
    uint64_t oldest; /* least position in this subtree */
    uint32_t allocation;
    uint32_t priority;
    uint32_t left, right; /* indexes; 0: none */
};

struct ranges {
    struct range_piece *pieces; /* [0] stands for none */
    size_t piece_count, piece_capacity;
    uint32_t free_piece; /* head of a list through `left` */
    struct range_allocation *allocations;
    size_t allocation_count, allocation_capacity;
    uint32_t free_allocation; /* index + 1; 0: none */
    uint32_t root;
    uint32_t live_pieces;
    uint64_t random;
};

/* Told of each piece that goes, in order of addresses. allocation->pieces is how many are left:
 * with 0 it is the allocation's end. */
typedef void ranges_freed(void *context, const struct range_allocation *allocation, uint64_t bytes);

void ranges_init(struct ranges *ranges, uint64_t seed);
void ranges_clear(struct ranges *ranges);

/* Takes out what lies in [start, end) and is of a position before this one. 0 or -ENOMEM, which
 * leaves all as it was. */
int ranges_cut(struct ranges *ranges, uint64_t start, uint64_t end, uint64_t before,
               ranges_freed *freed, void *context);

/* Cuts whatever lies in [allocation->address, + size), which neither is 0 nor wraps, and puts the
 * allocation there. 0 or -ENOMEM, which leaves all as it was. */
int ranges_add(struct ranges *ranges, const struct range_allocation *allocation,
               ranges_freed *freed, void *context);

#endif
