/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc/PID/stat says of a process that may end at any moment. */
#ifndef HEAPPROFD_UTIL_PROCESS_STAT_H
#define HEAPPROFD_UTIL_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
    pid_t parent;
    bool is_kernel_thread;
    uint64_t children_faults; /* page faults of all descendants that were waited for */
    uint64_t start_ticks;     /* sysconf(_SC_CLK_TCK) of them are a second; since boot */
};

/* Return false if there is no such process. */
bool process_stat_read(pid_t pid, struct process_stat *stat);

/*
 * Whether the process has ended, or has begun to end: it has no memory any more. A process whose
 * first thread has ended looks the same, whatever its other threads do. A kernel thread has no
 * memory either, and has not ended.
 */
bool process_has_ended(pid_t pid);

#endif
