/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous memory that no heap explains: an allocator that the profiler does not know has it.
 *
 * Explained are [heap] and the C library's arenas, stacks, .bss, generated code, our own memory,
 * mappings in which a profiled heap has or had samples, ranges of libc.mmap, and what was mapped
 * before the profile began. The rest is a lower bound: a mapping is explained as a whole, and the
 * kernel joins neighbours.
 *
 * A block that was made while smaps was read may lack its sample. So the ledger is asked before
 * and, if memory seems to be unexplained, once more after the process's records were taken in. At a
 * dump these must wait: then only what the snapshot before found, too, counts.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_UNEXPLAINED_H
#define HEAPPROFD_RECORDER_DUMP_UNEXPLAINED_H

#include "recorder/dump/memory_maps.h"
#include "recorder/ledger/ledger.h"

struct memory_range {
    uint64_t start, end;
};

struct unexplained {
    bool has_begun, too_many;
    /* Writable anonymous memory at the first snapshot of a process that ran before the profile. */
    struct memory_range *earlier;
    size_t earlier_count, earlier_capacity;
    /* Mappings that the process's allocator had at earlier snapshots: it may have kept them. */
    struct memory_range *kept;
    size_t kept_count, kept_capacity;
    uint64_t last_bytes;
    struct memory_unexplained most;
};

void unexplained_clear(struct unexplained *unexplained);

struct unexplained_facts {
    struct ledger *ledger;
    bool from_start; /* the profile has all allocations of the process */
    bool is_glibc;   /* its malloc is the C library's */
    /* Take in what the process has sent until now; NULL: not possible now. */
    void (*drain)(void *context);
    void *context;
};

/* Measure it in classified mappings, whose parts of malloc's live samples are known. Set the two
 * figures of the snapshot, whose sums are known. */
void unexplained_measure(struct unexplained *unexplained, struct memory_maps *maps,
                         const struct unexplained_facts *facts, struct memory_snapshot *snapshot);

#endif
