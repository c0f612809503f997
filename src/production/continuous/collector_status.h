/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the collector knows of itself and of the programs that it profiles: for `heap_profile
 * status` and for Prometheus. Figures that nobody has seen are NAN or UNKNOWN, never 0.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_STATUS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "production/sinks/sink.h"
#include "trace/losses.h"
#include "trace/memory_snapshot.h"

#define COLLECTOR_UNKNOWN UINT64_MAX

struct collector_heap {
    const char *name;
    double live_bytes, live_bytes_low, live_bytes_high; /* at the last dump; limits of 95 % */
    double live_count;
    double allocated_bytes, allocated_count; /* since the profile of the process began */
    bool allocated_is_exact;                 /* else they are estimates */
    bool is_partial;                         /* the figures leave out allocations */
};

struct collector_loss {
    const char *reason; /* `name` in trace_losses (trace/losses.h) */
    uint64_t amount;    /* since the profile of the process began, in the unit of that table */
};

struct collector_program {
    const char *name; /* of the section `[program NAME]` that chose it */
    const struct period_label *labels;
    size_t label_count;
    int32_t pid;
    int64_t since_ns; /* when the profile of the process began, since 1970; figures that add up
                         begin anew with it. 0: not yet */
    const struct collector_heap *heaps;
    size_t heap_count;
    uint64_t interval_bytes;
    uint64_t samples;
    double samples_per_hour; /* lately */
    const struct collector_loss *losses;
    size_t loss_count;
    int64_t last_dump_ns; /* since 1970; 0: none yet */
    struct memory_unexplained unexplained; /* the most so far; of_bytes 0: unknown */
    const char *problem;  /* why it is not profiled; "": it is */
};

/* What the configuration allows. NAN and COLLECTOR_UNKNOWN: no limit. */
struct collector_budget {
    double samples_per_hour; /* of a program */
    double cpu_share;        /* of one processor */
    uint64_t memory_bytes;
};

struct collector_status {
    int64_t started_ns; /* since 1970 */
    int64_t gap_ms;     /* before this start: from the last dump of the collector that ran before to
                           the start of this one. Its allocations are lost. -1: unknown */
    uint64_t period_ms;
    struct collector_budget budget;
    const struct collector_program *programs;
    size_t program_count;
    const struct sink_figures *sinks;
    size_t sink_count;
    double cpu_seconds;    /* of the daemon with all its processes */
    double cpu_share;      /* lately: of one processor */
    uint64_t memory_bytes; /* of the same; what n processes share counts one part in n */
    uint64_t dumps_taken, dumps_lost;
};

#endif
