/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of a process's memory, and their sum. */
#include "trace/memory_snapshot.h"

const char *const memory_kind_names[MEMORY_KINDS] = {
    [MEMORY_UNKNOWN] = "unknown",
    [MEMORY_ALLOCATOR] = "allocator",
    [MEMORY_ANONYMOUS] = "anonymous",
    [MEMORY_THREAD_STACKS] = "thread_stacks",
    [MEMORY_MAIN_STACK] = "main_stack",
    [MEMORY_FILES_CLEAN] = "files_clean",
    [MEMORY_FILES_WRITTEN] = "files_written",
    [MEMORY_SHARED] = "shared",
    [MEMORY_PROFILER] = "profiler",
    [MEMORY_KERNEL] = "kernel",
    [MEMORY_OTHER_HEAPS] = "other_heaps",
};

struct memory_part memory_snapshot_sum(const struct memory_snapshot *snapshot)
{
    struct memory_part sum = {0};
    for (unsigned i = 0; i < MEMORY_KINDS; i++) {
        if (i == MEMORY_PROFILER)
            continue;
        sum.rss_bytes += snapshot->parts[i].rss_bytes;
        sum.swap_bytes += snapshot->parts[i].swap_bytes;
        sum.mapped_bytes += snapshot->parts[i].mapped_bytes;
        sum.mappings += snapshot->parts[i].mappings;
    }
    return sum;
}
