/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over the processes of each program and service: what a time series is made of. Series of
 * single processes would be without number, because every restart makes new ones.
 *
 * - Live memory, intervals and dumps are of the processes that run now.
 * - Counters only grow: a process that has ended stays in them, and one whose profile begins anew
 *   adds what it has from then on.
 *
 * Names come from programs and containers, so their number is bounded: PROGRAM_TOTALS_MAX programs
 * and services, PROGRAM_HEAPS_MAX heaps of each. What is beyond is in the sums of one more, named
 * PROGRAM_TOTALS_OTHERS. A program without processes for PROGRAM_TOTALS_KEPT_MS is forgotten.
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_PROGRAM_TOTALS_H
#define HEAPPROFD_PRODUCTION_METRICS_PROGRAM_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "production/continuous/collector_status.h"

#define PROGRAM_TOTALS_MAX 256u
#define PROGRAM_HEAPS_MAX 16u
#define PROGRAM_TOTALS_KEPT_MS (UINT64_C(3600) * 1000)
#define PROGRAM_TOTALS_OTHERS "_others_"
#define PROGRAM_NAME_BYTES 128u /* longer names are cut */

/* Figures that only grow, of one heap. */
struct program_heap_counters {
    double allocated_bytes, allocated_count; /* NAN: no process has said */
};

struct program_heap {
    char name[PROGRAM_NAME_BYTES];
    struct program_heap_counters counters;
    /* Of the processes now. */
    double live_bytes, live_count;    /* NAN: unknown */
    double low_squares, high_squares; /* of the distances from the bytes to their limits */
    size_t partial;                   /* those whose figures leave out allocations */
};

struct program_total {
    char program[PROGRAM_NAME_BYTES], service[PROGRAM_NAME_BYTES];
    struct program_heap heaps[PROGRAM_HEAPS_MAX + 1]; /* the last one: all others */
    size_t heap_count;
    uint64_t samples;                /* COLLECTOR_UNKNOWN: no process has said */
    uint64_t losses[TRACE_LOSS_IDS]; /* flags: the number of profiles that they hold for */
    /* Of the processes now. */
    /* All; with a dump; with a problem; with too many allocations to be sampled. */
    size_t processes, measured, unprofiled, unsampled;
    uint64_t interval_bytes;  /* the largest; COLLECTOR_UNKNOWN */
    double unexplained_bytes; /* NAN: unknown */
    int64_t oldest_dump_ns;   /* of those that are measured; 0: none */
    uint64_t seen_ms;         /* when it last had a process */
};

struct process_figures; /* the last figures of a process */

struct program_totals {
    struct program_total *items;
    size_t count, capacity;
    struct process_figures *processes; /* by pid */
    size_t process_count;
    uint64_t unnamed; /* processes now whose program is in PROGRAM_TOTALS_OTHERS */
};

/* Take a newer status. now_ms: CLOCK_MONOTONIC. Return 0, or -ENOMEM with all as it was. */
int program_totals_update(struct program_totals *totals, const struct collector_status *status,
                          uint64_t now_ms);
void program_totals_clear(struct program_totals *totals);

/* Return the name of a program's label, or "". */
const char *program_label(const struct collector_program *program, const char *name);

#endif
