/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process with what of them is in memory (/proc/PID/smaps), and what each is for.
 *
 * What a mapping is for is told by its name, by the flags that our own mappings have and no others
 * (client/system.c), by its neighbours (a guard page below a stack, a file's data below its .bss),
 * and by the live allocations that are in it. Nothing is asked of the process.
 */
#ifndef HEAPPROFD_DAEMON_DUMP_MEMORY_MAPS_H
#define HEAPPROFD_DAEMON_DUMP_MEMORY_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/memory_snapshot.h"

struct memory_map {
    uint64_t start, end;
    uint64_t rss_bytes, swap_bytes;
    uint64_t anonymous_bytes; /* of a file: private copies of its pages */
    enum memory_kind kind;    /* files: FILES_CLEAN, with what is written in anonymous_bytes */
    bool readable, writable, unnamed, file_is_written;
    bool ours; /* has the flags of the client's tables */
    /* Of a mapping that is not the allocator's: what allocations that stand for themselves have of
     * it. The kernel joins neighbours, whoever mapped them. */
    double allocator_rss, allocator_swap;
};

struct memory_maps {
    struct memory_map *items; /* by address */
    size_t count, capacity;
};

/* Reads them from a smaps file: 0, or a negative errno: -ENOENT, -EACCES, -ENOMEM, -ENODATA where
 * there are none, as of a process that has ended. */
int memory_maps_read(struct memory_maps *maps, const char *path);
void memory_maps_clear(struct memory_maps *maps);

/* The mapping that has this address; NULL: none. */
struct memory_map *memory_maps_find(const struct memory_maps *maps, uint64_t address);

/* Tells stacks, .bss and the arenas of the C library's allocator by their neighbours. */
void memory_maps_sort_out(struct memory_maps *maps, uint64_t stack_limit_bytes);

/* Adds them up by kind. */
void memory_maps_sum(const struct memory_maps *maps, struct memory_part parts[MEMORY_KINDS]);

#endif
