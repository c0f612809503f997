/* SPDX-License-Identifier: Apache-2.0 */
/* Records the counters of the machine that explain a process's memory: /proc/meminfo, /proc/vmstat
 * and the pressure of memory. What the kernel does not have is left out. */
#ifndef HEAPPROFD_RECORDER_TIMELINE_SYSTEM_WATCH_H
#define HEAPPROFD_RECORDER_TIMELINE_SYSTEM_WATCH_H

#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"

struct system_watch {
    uint64_t meminfo_due_ms, vmstat_due_ms, psi_due_ms; /* CLOCK_MONOTONIC */
};

/* Read and write what is due. */
void system_watch_tick(struct system_watch *watch, const struct heap_timeline *config,
                       struct trace_writer *writer, uint64_t now_ms);

/* Write where the unified hierarchy of cgroups is mounted; "" if nowhere. */
void system_watch_find_cgroups(char *path, size_t size);

#endif
