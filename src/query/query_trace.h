/*
 * One trace as the tables see it: a profile read as the trace has it, and what Perfetto's ids need
 * beside its arrays: processes and threads with their row 0, and the rows of
 * heap_profile_allocation, which are differences between dumps.
 *
 * Ids of several traces go on from one to the next, so that joins by id need nothing else.
 */
#ifndef HEAPPROFD_QUERY_QUERY_TRACE_H
#define HEAPPROFD_QUERY_QUERY_TRACE_H

#include "profile/profile.h"

struct query_process {
    int32_t pid, parent_pid;
    uint32_t process; /* in profile.processes; PROFILE_NONE: nothing but the pid is known */
    uint32_t parent;  /* row; PROFILE_NONE: unknown */
};

struct query_thread {
    int32_t tid;
    const char *name; /* "" if unknown */
    uint32_t process; /* row of struct query_process */
};

/* A dump of any heap, in the order of the trace. */
struct query_dump {
    uint32_t heap, number; /* in profile.heaps, in its dumps */
};

/* One row: what a sample allocated or freed since the dump before. */
struct query_allocation {
    uint32_t dump;   /* in query_trace.dumps */
    uint32_t sample; /* in the dump's samples */
    bool freed;
};

/* The sample of the same callsite and heap that came before one. */
struct query_before {
    uint32_t dump; /* in query_trace.dumps; PROFILE_NONE: there is none */
    uint32_t sample;
    bool is_left_out; /* the later one: its counters went down, or its stack is not in the trace */
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
    int64_t self_size, cumulative_size, self_alloc_size, cumulative_alloc_size;
};

/* Where the ids of a trace begin: after those of the traces before it. */
struct query_bases {
    int64_t process, thread, mapping, frame, callsite, symbol;
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
    struct query_dump *dumps;
    size_t dump_count;
    struct query_stat *stats;
    size_t stat_count;
    /* Where the part that was asked for last stands: its dump's first parts before that sample. */
    struct {
        size_t dump, sample, part;
    } cursor;
    /* Made when they are asked for. */
    struct query_allocation *allocations;
    size_t allocation_count;
    bool has_allocations;
    struct query_before *befores; /* by sample of all dumps */
    size_t *sample_firsts;        /* by dump: its first in befores */
    bool has_befores;
    struct trace_figures *totals; /* by dump: of the heap up to it */
    struct query_summary_node *summary;
    size_t summary_count;
    char **summary_names; /* demangled, by frame or line */
    size_t summary_name_count;
    bool has_summary;
    uint64_t malformed_samples; /* counters that went down */
    int error;                  /* -ENOMEM: rows are missing */
};

/* Takes the profile, whatever it returns. 0 or -ENOMEM. */
int query_trace_open(struct query_trace *trace, const char *path, struct profile *profile,
                     const struct query_bases *bases);
void query_trace_close(struct query_trace *trace);
/* Those of the trace that follows. */
struct query_bases query_trace_next_bases(const struct query_trace *trace);

const struct profile_heap *query_trace_heap(const struct query_trace *trace, size_t dump);
const struct profile_dump *query_trace_dump(const struct query_trace *trace, size_t dump);

/* Finds what came before each sample, and the totals, once. 0 or -ENOMEM. */
int query_trace_need_befores(struct query_trace *trace);
const struct query_before *query_trace_before(const struct query_trace *trace, size_t dump,
                                              size_t sample);
/* Makes the rows of heap_profile_allocation, once. 0 or -ENOMEM. */
int query_trace_need_allocations(struct query_trace *trace);

/* Whole numbers as Perfetto's fields have them. */
struct query_counters {
    int64_t allocated_bytes, allocated_count, freed_bytes, freed_count;
};
struct query_counters query_counters_of(const struct profile_heap *heap,
                                        const struct profile_sample *sample);
/* What a sample has more than the one before. */
struct query_counters query_trace_difference(const struct query_trace *trace, size_t dump,
                                             size_t sample);
void query_allocation_values(const struct query_trace *trace,
                             const struct query_allocation *allocation, int64_t *count,
                             int64_t *size);

#endif
