/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a dump: everything except the samples that a trace records about one heap of a
 * process at one moment. The writer takes one, and the profile keeps the last one of each heap.
 */
#ifndef HEAPPROFD_TRACE_HEAP_DUMP_H
#define HEAPPROFD_TRACE_HEAP_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/losses.h"

/* The addresses in one process of a mapping whose start and end are 0 in the trace. */
struct trace_place {
    uint64_t mapping; /* id */
    uint64_t start, end;
};
/* Further places are left out. A program has a few hundred code files at most. */
#define TRACE_PLACES_MAX 2000u

/* What was found at a callsite when the memory of the process was read. In bytes, estimated. */
struct trace_memory_site {
    uint64_t callsite;              /* id of a callstack; in a profile its callsite */
    double live_bytes, live_margin; /* 95 % */
    double absent_bytes;            /* of these: in whole pages that are not resident */
    double free_bytes;              /* resident, and free, around them */
};
#define TRACE_MEMORY_SITES_MAX 32u

/* ProcessHeapSamples without its samples. */
struct trace_heap_dump {
    int32_t pid;
    const char *heap_name; /* "libc.malloc" */
    uint64_t interval_bytes, first_interval_bytes;
    uint64_t timestamp_ns, start_timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
    bool from_startup, rejected_concurrent, disconnected, buffer_overran, buffer_corrupted,
        hit_guardrail;
    uint32_t client_error; /* enum ClientError */
    bool dump_at_max;      /* the samples' self_max replaces the other counters */
    bool final;            /* last dump of this heap; our own field */
    uint32_t cause;        /* enum dump_cause_kind: why it was taken if nobody asked for it */
    uint64_t cause_used_bytes, cause_limit_bytes; /* of the cgroup at that moment */
    /* stats */
    uint64_t unwinding_errors, heap_samples, map_reparses, unwinding_time_us, blocked_us;
    /* Exact totals, without stacks; our own fields. */
    uint64_t exact_bytes, exact_calls;
    bool has_exact_calls; /* in a dump that was read: the file has the field, perhaps with a zero */
    uint64_t
        unsent_bytes_of_ring; /* reserved in the ring but never committed when the process ended */
    uint64_t lost[TRACE_LOST_PLACES]; /* by enum trace_loss_id */
    /* The estimates of what was allocated before its calibration by the exact totals; 0: it was not
     * calibrated. */
    double sampled_bytes, sampled_calls;
    double calibration_ratio; /* the most by which missed bytes were multiplied; 0: unknown */
    uint64_t image;           /* as in struct trace_process; 0: unknown */
    double peak_live_bytes, peak_live_count;
    /* The highest estimate of live bytes, and the count of that moment, whose bias the peak above
     * does not have; 0: the same. */
    double peak_highest_bytes, peak_highest_count;
    uint64_t peak_timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
    const char *allocator;      /* file name of the object with the real malloc; NULL unknown */
    int32_t exit_status;        /* as waitpid returns it; -1: unknown, or the process lives */
    /* Text for users: why the profile is empty or partial; NULL: none. */
    const char *remark;
    /* Samples whose type, or context, exceeded the limit and is not distinguished. */
    uint64_t other_types, other_contexts;
    uint32_t max_overhead_percent; /* 0: the session's interval is given */
    uint64_t weighed_samples;      /* of heap_samples: drawn and weighted by the program itself */
    /* Another allocator of the process, which was not profiled: its allocations are missing. NULL:
     * no such allocator is known. */
    const char *unseen_allocator;
    const struct trace_place *places; /* at most TRACE_PLACES_MAX; our own field */
    size_t place_count;
    /* Of malloc's heap, those with the most that is absent or free; our own field. */
    const struct trace_memory_site *sites;
    size_t site_count;
    uint64_t piece_bytes; /* free memory was looked for within pieces of this size; 0: unknown */
};

#endif
