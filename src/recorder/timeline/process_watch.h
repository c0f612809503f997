/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a profiled process beside its heap, read from /proc: its memory, its page faults,
 * and the memory pressure of its cgroup. The process is not involved.
 */
#ifndef HEAPPROFD_RECORDER_TIMELINE_PROCESS_WATCH_H
#define HEAPPROFD_RECORDER_TIMELINE_PROCESS_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "recorder/processes/process_info.h"
#include "trace/write/trace_timeline.h"

struct process_watch {
    int directory; /* /proc/PID; -1: none */
    pid_t pid;
    uint64_t start_boottime_ns; /* of the process */
    bool has_track;
    struct watched_counter {
        bool has_track, is_held; /* held: read, and not written because it was unchanged */
        uint64_t value, read_ns;
    } counters[TRACE_COUNTERS];
    bool has_oom_score_adj;
    int64_t oom_score_adj;
};

void process_watch_open(struct process_watch *watch, pid_t pid, uint64_t start_boottime_ns);
void process_watch_close(struct process_watch *watch);

/* Describe the tracks of all counters again, before their next values. */
void process_watch_restart(struct process_watch *watch);

/* Read how much memory the process has. Return false if it has none: it has ended. */
bool process_watch_rss(const struct process_watch *watch, struct process_memory *memory);

/* Read the process's memory into `point`, except for its heap and its time. Return false if the
 * process has no memory any more. */
bool process_watch_memory(const struct process_watch *watch, struct trace_memory_point *point);

/* Read and write the numbers of page faults. */
void process_watch_faults(struct process_watch *watch, struct trace_writer *writer);

/* Read what changes slowly: oom_score_adj, which the next point of memory has, and the pressure of
 * the cgroup, which is written. `cgroups` is where the machine's cgroups are mounted; "": unknown.
 */
void process_watch_slowly(struct process_watch *watch, struct trace_writer *writer,
                          const char *cgroups);

#endif
