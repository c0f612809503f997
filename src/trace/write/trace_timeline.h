/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets beside the heap: counters of processes and of the machine, and the lifetimes of
 * threads and processes. They are Perfetto's own packets, so its tools show them as they show those
 * of its own recorder.
 *
 * Like all of trace_writer.h, every function returns 0 or a negative errno.
 */
#ifndef HEAPPROFD_TRACE_WRITE_TRACE_TIMELINE_H
#define HEAPPROFD_TRACE_WRITE_TRACE_TIMELINE_H

#include "trace/write/trace_writer.h"

#define TRACE_UNKNOWN UINT64_MAX

/* The memory of a process at a time, from /proc/PID/status. TRACE_UNKNOWN: left out. */
struct trace_memory_point {
    uint64_t boottime_ns; /* packet timestamp */
    int32_t pid;
    uint64_t vm_size_kb, vm_rss_kb, rss_anon_kb, rss_file_kb, rss_shmem_kb;
    uint64_t vm_swap_kb, vm_locked_kb, vm_hwm_kb;
    bool has_oom_score_adj;
    int64_t oom_score_adj;
    uint64_t heap_bytes; /* estimated live bytes of all profiled heaps; our own field */
    /* The profiler's own part of rss_anon_kb, rss_file_kb and rss_shmem_kb; our own fields. */
    uint64_t profiler_anon_bytes, profiler_file_bytes, profiler_shmem_bytes;
};
/* Return a point of which nothing is known. */
static inline struct trace_memory_point trace_memory_point_of(int32_t pid)
{
    return (struct trace_memory_point){
        .pid = pid,
        .vm_size_kb = TRACE_UNKNOWN,
        .vm_rss_kb = TRACE_UNKNOWN,
        .rss_anon_kb = TRACE_UNKNOWN,
        .rss_file_kb = TRACE_UNKNOWN,
        .rss_shmem_kb = TRACE_UNKNOWN,
        .vm_swap_kb = TRACE_UNKNOWN,
        .vm_locked_kb = TRACE_UNKNOWN,
        .vm_hwm_kb = TRACE_UNKNOWN,
        .profiler_anon_bytes = TRACE_UNKNOWN,
        .profiler_file_bytes = TRACE_UNKNOWN,
        .profiler_shmem_bytes = TRACE_UNKNOWN,
    };
}
/* Points and values of counters are written with later packets, at the latest by
 * trace_writer_stream_flush(). */
int trace_writer_memory_point(struct trace_writer *writer, const struct trace_memory_point *point);
/* Write the heap's size only. */
int trace_writer_heap_size(struct trace_writer *writer, const struct trace_memory_point *point);

/* The sums over all mappings of a process, as /proc/PID/smaps_rollup has them. TRACE_UNKNOWN: left
 * out. */
struct trace_smaps_sums {
    uint64_t boottime_ns;
    int32_t pid;
    uint64_t rss_kb, pss_kb, pss_anon_kb, pss_file_kb, pss_shmem_kb, swap_pss_kb;
};
int trace_writer_smaps_sums(struct trace_writer *writer, const struct trace_smaps_sums *sums);

/* --- counter tracks of a process --- */

enum trace_counter {
    TRACE_COUNTER_MINOR_FAULTS,
    TRACE_COUNTER_MAJOR_FAULTS,
    TRACE_COUNTER_CGROUP_SOME_NS, /* memory pressure of the process's cgroup */
    TRACE_COUNTER_CGROUP_FULL_NS,
    TRACE_COUNTERS,
};

/* Return the number of the process's own track, the parent of all others. A trace may have only one
 * such track for a process: trace processor takes a second one for another process of the same
 * pid. */
uint64_t trace_process_track(int32_t pid, uint64_t start_boottime_ns);

/* Describe the process's track, before the first counter's. */
int trace_writer_process_track(struct trace_writer *writer, int32_t pid,
                               uint64_t start_boottime_ns);
/* Describe a counter's track, before its first value. */
int trace_writer_counter_track(struct trace_writer *writer, enum trace_counter counter, int32_t pid,
                               uint64_t start_boottime_ns);
int trace_writer_counter(struct trace_writer *writer, uint64_t boottime_ns,
                         enum trace_counter counter, int32_t pid, uint64_t start_boottime_ns,
                         uint64_t value);

/* --- counters of the machine --- */

struct trace_system_counter {
    uint32_t key;
    uint64_t value;
};
struct trace_system_point {
    uint64_t boottime_ns;
    /* /proc/meminfo in KiB, by MeminfoCounters; /proc/vmstat, by VmstatCounters. */
    const struct trace_system_counter *meminfo, *vmstat;
    size_t meminfo_count, vmstat_count;
    /* Total time in which some or all tasks waited for memory. */
    uint64_t pressure_some_ns, pressure_full_ns;
};
int trace_writer_system_point(struct trace_writer *writer, const struct trace_system_point *point);

/* --- lifetimes --- */

/* Write the start of a thread that is not a process's main thread, before a packet that names it.
 * A start before the trace's beginning is left out. */
int trace_writer_thread_start(struct trace_writer *writer, int32_t tid, const char *name,
                              uint64_t boottime_ns);
/* Write the end of a thread; that of a process's main thread is the end of the process. No later
 * packet may name it. */
int trace_writer_thread_end(struct trace_writer *writer, int32_t tid, uint64_t boottime_ns);

/* Return the time that the next packet has. */
uint64_t trace_writer_time(const struct trace_writer *writer);
/* From now on write packets with this time, in place of the present; 0: the present. */
void trace_writer_set_time(struct trace_writer *writer, uint64_t boottime_ns);

#endif
