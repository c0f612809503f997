/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What continuous mode costs the machine: processor time and memory of the supervisor, the
 * session's process with its file reader, and the collector with the processes that it starts. The
 * cost inside the profiled programs is not in it.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_OWN_COST_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_OWN_COST_H

#include <stdint.h>
#include <sys/types.h>

struct own_cost {
    double cpu_seconds;
    double cpu_share;      /* of one processor, over the last minutes; NAN: unknown */
    uint64_t memory_bytes; /* memory shared by n processes counts one part in n in each */
    uint64_t began_ms, measured_ms;
    double used_s; /* since the last measurement, as far as is known */
};

/* Measure. `session`: the session's process, 0 if unknown; now_ms: CLOCK_MONOTONIC. */
void own_cost_measure(struct own_cost *cost, pid_t session, uint64_t now_ms);

#endif
