/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace, as the tables of SQL show it: a profile that was read unchanged (as_in_trace), and the
 * rows that Perfetto's tables derive from it: processes and threads (query_trace.c), the changes
 * between dumps in heap_profile_allocation (query_allocations.c), and stats (query_stats.c). The
 * ids of a trace continue those of the previous one, so a join by id is sufficient.
 */
#ifndef HEAPPROFD_TOOLS_QUERY_QUERY_TRACE_H
#define HEAPPROFD_TOOLS_QUERY_QUERY_TRACE_H

#include "profile/profile.h"
#include "profile/stack_samples.h"

struct query_process {
    int32_t pid, parent_pid;
    uint32_t process; /* in profile.processes; PROFILE_NONE: only the pid is known */
    uint32_t parent;  /* row; PROFILE_NONE: unknown */
    uint64_t end_ns;  /* 0: unknown, or it has not ended */
};

struct query_thread {
    int32_t tid;
    const char *name;          /* "" if unknown */
    uint32_t process;          /* row of struct query_process; PROFILE_NONE: unknown */
    uint64_t start_ns, end_ns; /* 0: unknown */
};

/* The rows of the process and the thread of a profile_stack_task; PROFILE_NONE: none. */
struct query_stack_task {
    uint32_t process, thread;
};

/* A dump of any heap, in the order of the trace. */
struct query_dump {
    uint32_t heap, number; /* in profile.heaps, in its dumps */
};

/* One row: the allocations of a callsite since the previous dump, or its frees, which are
 * negative. */
struct query_allocation {
    int64_t size, count;
    uint32_t callsite;
    uint32_t dump; /* in query_trace.dumps */
};

/* Whole numbers as in Perfetto's fields, since the start. */
struct query_counters {
    int64_t allocated_bytes, allocated_count, freed_bytes, freed_count;
};

struct query_stat {
    const char *name, *severity;
    bool indexed;
    int64_t index, value;
};

/* A function on a stack, with the sums of all processes; see summary_tree.c. */
struct query_summary_node {
    int64_t id, parent_id; /* -1: outermost */
    const char *name, *mapping_name, *source_file;
    uint32_t line;
    bool has_line;
    int64_t self_size, cumulative_size, self_alloc_size, cumulative_alloc_size;
};

/* The interval that a dump covers; see intervals.c. */
struct query_interval {
    int64_t id, start_ns, end_ns, retained, allocated, delta;
    uint32_t process; /* row of struct query_process */
    const char *heap_name;
};

/* The first ids of a trace: after those of the previous traces. */
struct query_bases {
    int64_t process, thread, mapping, frame, callsite, symbol, dump, memory_snapshot;
    int64_t counter_track, counter;
    int64_t stack_session, stack_async, stack_task, stack_execution, stack_sample;
};

struct query_trace {
    char *path;
    struct profile *profile;
    struct query_bases bases;
    struct query_process *processes;
    size_t process_count;
    uint32_t *process_rows; /* by profile.processes */
    struct query_thread *threads;
    size_t thread_count;
    uint32_t *process_tracks; /* those of profile.counter_tracks that belong to a process */
    size_t process_track_count;
    const struct profile_stack_samples *stacks; /* without rows if the trace has none */
    struct query_stack_task *stack_tasks;       /* by stacks->tasks */
    struct query_dump *dumps;
    size_t dump_count;
    size_t *sample_firsts, *part_firsts; /* by dump: the number of parts in the previous dumps */
    struct query_stat *stats;
    size_t stat_count;
    bool has_stats;
    /* Where the last read part is: its dump, its sample, and the number of the dump's parts before
     * that sample. */
    struct {
        size_t dump, sample, part;
    } cursor;
    /* Made at their first use. */
    struct query_allocation *allocations;
    size_t allocation_count;
    size_t *allocation_firsts; /* by dump: its first; and after the last */
    bool has_allocations;
    struct trace_figures *totals; /* by dump: totals of the heap up to it */
    bool has_totals;
    struct query_summary_node *summary;
    size_t summary_count;
    char **summary_names; /* demangled, by frame or line */
    size_t summary_name_count;
    bool has_summary;
    struct query_interval *intervals; /* NULL: not made yet */
    size_t interval_count;
};

/* Take over the profile. */
void query_trace_open(struct query_trace *trace, const char *path, struct profile *profile,
                      const struct query_bases *bases);
void query_trace_close(struct query_trace *trace);
/* Return the bases of the next trace. */
struct query_bases query_trace_next_bases(const struct query_trace *trace);

const struct profile_heap *query_trace_heap(const struct query_trace *trace, size_t dump);
const struct profile_dump *query_trace_dump(const struct query_trace *trace, size_t dump);

/* Make the rows of heap_profile_allocation, once. */
void query_trace_need_allocations(struct query_trace *trace);
/* Make the totals, once. */
void query_trace_need_totals(struct query_trace *trace);
/* Sum up by callsite, for all processes (PROFILE_NONE) or for one, by its row, up to a time. Return
 * the number of dumps. The caller frees *sums. */
size_t query_trace_sum(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                       struct query_counters **sums);

/* Add to malformed[row of process] the number of its samples whose counters went down. */
void query_trace_count_malformed(struct query_trace *trace, uint64_t *malformed);

/* Make the rows of stats, once. */
void query_trace_need_stats(struct query_trace *trace);

#endif
