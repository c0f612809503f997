/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a dump: what a trace says of one heap of one process at one moment, besides its
 * samples. The writer takes one, and the profile keeps the last one of each heap.
 */
#ifndef HEAPPROFD_TRACE_HEAP_DUMP_H
#define HEAPPROFD_TRACE_HEAP_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/losses.h"

/* Where a process has a mapping whose start and end are 0 in the trace. */
struct trace_place {
    uint64_t mapping; /* id */
    uint64_t start, end;
};
/* More are left out: a program has some hundred files of code at most. */
#define TRACE_PLACES_MAX 2000u

/* ProcessHeapSamples without the samples. */
struct trace_heap_dump {
    int32_t pid;
    const char *heap_name; /* "libc.malloc" */
    uint64_t interval_bytes, first_interval_bytes;
    uint64_t timestamp_ns, start_timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
    bool from_startup, rejected_concurrent, disconnected, buffer_overran, buffer_corrupted,
        hit_guardrail;
    uint32_t client_error; /* enum ClientError */
    bool dump_at_max;      /* the samples' self_max stands in place of the other counters */
    bool final;            /* last dump of this heap; own field */
    /* stats */
    uint64_t unwinding_errors, heap_samples, map_reparses, unwinding_time_us, blocked_us;
    /* Exact, without stacks; own fields. */
    uint64_t exact_bytes, exact_calls;
    bool has_exact_calls;          /* of a dump that was read: the file has them, if only a zero */
    uint64_t unsent_bytes_of_ring; /* reserved, never committed, at the process's death */
    uint64_t lost[TRACE_LOST_PLACES]; /* by enum trace_loss_id */
    double peak_live_bytes, peak_live_count;
    uint64_t peak_timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
    const char *allocator;      /* file name of the object with the real malloc; NULL unknown */
    int32_t exit_status;        /* as waitpid gives it; -1: unknown or alive */
    /* Why the profile is empty or partial, in words for people; NULL: nothing to say. */
    const char *remark;
    /* Samples whose types, or contexts, were too many to be told apart. */
    uint64_t other_types, other_contexts;
    uint64_t weighed_samples; /* of heap_samples: drawn by the program itself */
    /* Another allocator of the process, which was not profiled: what it gave is missing. NULL: none
     * is known. */
    const char *unseen_allocator;
    const struct trace_place *places; /* at most TRACE_PLACES_MAX; own field */
    size_t place_count;
};

#endif
