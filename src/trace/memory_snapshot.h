/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a process's memory: its resident bytes by kind of mapping, and what was live of its
 * malloc at that moment. Made by the daemon, carried by the trace as it stands.
 */
#ifndef HEAPPROFD_TRACE_MEMORY_SNAPSHOT_H
#define HEAPPROFD_TRACE_MEMORY_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct trace_writer;

/* The numbers are MemorySnapshot.Kind's. */
enum memory_kind {
    MEMORY_UNKNOWN = 0,
    MEMORY_ALLOCATOR = 1,     /* [heap], and mappings with live allocations in them */
    MEMORY_ANONYMOUS = 2,     /* without any: the program's own, or empty ones of an allocator */
    MEMORY_THREAD_STACKS = 3, /* of threads that run, and kept for new ones */
    MEMORY_MAIN_STACK = 4,
    MEMORY_FILES_CLEAN = 5,   /* as they are on the disk: code, constants, what was mapped */
    MEMORY_FILES_WRITTEN = 6, /* private copies of pages of files, and .bss */
    MEMORY_SHARED = 7,        /* memfd, /dev/shm, System V */
    MEMORY_PROFILER = 8,
    MEMORY_KERNEL = 9, /* [vdso] and the like */
    MEMORY_KINDS,
};

struct memory_part {
    uint64_t rss_bytes, swap_bytes, mapped_bytes, mappings;
};

struct memory_snapshot {
    int32_t pid;
    uint64_t boottime_ns;
    struct memory_part parts[MEMORY_KINDS];
    /* Of malloc's heap, estimates. */
    double live_bytes, live_bytes_variance, live_count;
    double rounding_bytes;     /* what the allocator takes for them beside that, by its rule */
    const char *rounding_rule; /* whose rule; NULL: not known, and rounding_bytes 0 */
    /* Of the live bytes: in pages that were never touched, or are swapped out. */
    double untouched_bytes, swapped_bytes;
    bool pages_unknown;    /* the two could not be found out */
    const char *allocator; /* file name of the object with the real malloc; NULL: unknown */
    uint64_t duration_us;  /* that the look took */
};

/* Sum of all kinds. */
uint64_t memory_snapshot_rss(const struct memory_snapshot *look);

/* 0 or a negative errno, as all of trace_writer.h. */
int trace_writer_memory_snapshot(struct trace_writer *writer, const struct memory_snapshot *look);

#endif
