/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process, their resident bytes (/proc/PID/smaps), and what each is for.
 *
 * The purpose of a mapping follows from its name, from flags that only our own mappings have
 * (client/system.c), from its first page or its neighbours (a guard page below a stack, a file's
 * data below its .bss), and from the live allocations in it. The process itself is not involved.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_MEMORY_MAPS_H
#define HEAPPROFD_RECORDER_DUMP_MEMORY_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/memory_snapshot.h"

struct memory_map {
    uint64_t start, end;
    uint64_t rss_bytes, swap_bytes;
    uint64_t anonymous_bytes; /* of a file mapping: private copies of its pages */
    uint64_t shared_bytes;    /* resident, and mapped by other processes, too */
    uint64_t huge_bytes;      /* resident in huge pages, without those of files */
    enum memory_kind kind;    /* FILES_CLEAN for files; their written pages are anonymous_bytes */
    bool readable, writable, unnamed, file_is_written;
    bool is_anonymous; /* private, and of no file */
    bool is_arena;     /* [heap], or a part of a further arena of the C library */
    bool is_shmem;     /* of a memfd */
    bool ours;         /* has the flags of the client's tables */
    /* Has the flags of a thread's stack, and may have guard pages inside; the first page is one. */
    bool is_never_huge, may_have_guards, begins_with_guard;
    /* In a mapping that is not the allocator's: the part that allocations with a mapping of their
     * own have in it. The kernel merges neighbours, whoever mapped them. */
    double allocator_rss, allocator_swap, allocator_mapped;
    /* Pages of live blocks that are shared with a child, or are the kernel's page of zeros. */
    double doubtful_bytes;
    bool executable;
    /* See unexplained.h; UINT64_MAX: all. The second: by ranges of libc.mmap. */
    uint64_t explained_bytes, range_bytes;
};

struct memory_maps {
    struct memory_map *items; /* by address */
    size_t count, capacity;
    uint64_t pss_kb, swap_pss_kb; /* sums of all mappings */
    bool has_pss, has_swap_pss;   /* the kernel has these lines */
};

/* Read the mappings from a smaps file. Return 0 or a negative errno: -ENOENT, -EACCES, -ENOMEM, or
 * -ENODATA if there are none (the process has ended). */
int memory_maps_read(struct memory_maps *maps, const char *path);
void memory_maps_clear(struct memory_maps *maps);

/* Return the mapping that contains the address, or NULL. */
struct memory_map *memory_maps_find(const struct memory_maps *maps, uint64_t address);

/* Note the mappings that begin with a guard page of their own (MADV_GUARD_INSTALL), as thread
 * stacks do from glibc 2.42 on. `pagemap`: the process's open file. */
void memory_maps_find_guards(struct memory_maps *maps, int pagemap, uint64_t page_bytes);

/* Recognize stacks, .bss and the arenas of the C library's allocator by their neighbours. */
void memory_maps_classify(struct memory_maps *maps, uint64_t stack_limit_bytes);

/* Return how much of the doubtful bytes is certainly the kernel's page of zeros: they are no part
 * of the RSS, and no more can be shared than smaps says. */
double memory_map_zeros(const struct memory_map *map);

/* Sum the mappings by kind. */
void memory_maps_sum(const struct memory_maps *maps, struct memory_part parts[MEMORY_KINDS]);

#endif
