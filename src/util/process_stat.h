/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat of a process that may end at any moment. */
#ifndef HEAPPROFD_UTIL_PROCESS_STAT_H
#define HEAPPROFD_UTIL_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
    pid_t parent;
    bool is_kernel_thread;
    uint64_t children_faults; /* page faults of all reaped descendants */
    uint64_t start_ticks;     /* since boot, sysconf(_SC_CLK_TCK) a second */
};

/* Read the fields. Return false if there is no such process. */
bool process_stat_read(pid_t pid, struct process_stat *stat);

/*
 * Return whether the process has ended or begun to end: it has no memory any more. This also holds
 * for a process whose first thread has ended, whatever its other threads do. It does not hold for a
 * kernel thread, which has no memory either.
 */
bool process_has_ended(pid_t pid);

#endif
