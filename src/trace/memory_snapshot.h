/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of a process's memory: its resident bytes by kind of mapping, and the live bytes of
 * its malloc heap at that moment. The daemon makes it, and the trace contains it unchanged.
 */
#ifndef HEAPPROFD_TRACE_MEMORY_SNAPSHOT_H
#define HEAPPROFD_TRACE_MEMORY_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct trace_writer;

/* The values of MemorySnapshot.Kind. */
enum memory_kind {
    MEMORY_UNKNOWN = 0,
    MEMORY_ALLOCATOR = 1, /* [heap], and mappings that contain live allocations */
    MEMORY_ANONYMOUS =
        2, /* without live blocks of a heap: the program's own, or empty ones of an allocator */
    MEMORY_THREAD_STACKS = 3, /* of running threads, and kept for new ones */
    MEMORY_MAIN_STACK = 4,
    MEMORY_FILES_CLEAN = 5,   /* unchanged pages of files: code, constants, mapped data */
    MEMORY_FILES_WRITTEN = 6, /* private copies of pages of files, and .bss */
    MEMORY_SHARED = 7,        /* memfd, /dev/shm, System V */
    MEMORY_PROFILER = 8,
    MEMORY_KERNEL = 9, /* [vdso] and similar mappings */
    /* With live blocks of heaps that are not malloc's: the arenas of python.object. */
    MEMORY_OTHER_HEAPS = 10,
    MEMORY_KINDS,
};

struct memory_part {
    uint64_t rss_bytes, swap_bytes, mapped_bytes, mappings;
    uint64_t
        huge_bytes; /* of rss_bytes: in huge pages; of files and shared memory unknown, and 0 */
};

/* Anonymous memory, resident or swapped out, that no heap explains: a lower bound. */
struct memory_unexplained {
    uint64_t bytes;
    uint64_t of_bytes; /* all anonymous memory of the program then */
};

/* Return whether it is so much that an allocator must have it which the profiler does not know:
 * docs/rss.md has the share, and how it was chosen. */
static inline bool memory_unexplained_is_much(const struct memory_unexplained *unexplained)
{
    return unexplained->bytes > UINT64_C(8) << 20 && unexplained->bytes > unexplained->of_bytes / 5;
}

struct memory_snapshot {
    int32_t pid;
    uint64_t boottime_ns;
    struct memory_part parts[MEMORY_KINDS];
    /* Estimates for malloc's heap. */
    double live_bytes, live_bytes_variance, live_count;
    double rounding_bytes;     /* the allocator's overhead for them, by its rounding rule */
    const char *rounding_rule; /* name of the rule; NULL: unknown, and rounding_bytes is 0 */
    /* Live bytes in pages that were never touched, or are swapped out. */
    double untouched_bytes, swapped_bytes;
    bool pages_unknown; /* these two are unknown */
    /* Live blocks of other heaps in MEMORY_OTHER_HEAPS. */
    double others_live_bytes, others_live_variance;
    /* Of the C library's malloc: [heap] and the mappings of its further arenas. 0: none. */
    uint64_t arenas, arenas_rss_bytes;
    const char *allocator; /* file name of the object with the real malloc; NULL: unknown */
    uint64_t duration_us;  /* duration of the snapshot */
    bool has_unexplained;  /* the next two are known */
    /* Now, and when it was most so far: memory that was freed meanwhile was in no heap either. */
    struct memory_unexplained unexplained, most_unexplained;
};

/* Names of the kinds, for scripts. */
extern const char *const memory_kind_names[MEMORY_KINDS];

/* Return the program's memory: the sum over all kinds but the profiler's. */
struct memory_part memory_snapshot_sum(const struct memory_snapshot *snapshot);

/* Write a snapshot. Return 0 or a negative errno, like all of trace_writer.h. */
int trace_writer_memory_snapshot(struct trace_writer *writer,
                                 const struct memory_snapshot *snapshot);

#endif
