/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one heap of one process did in one period: the unit that leaves the machine. The collector
 * makes it from a dump, and every sink takes it.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_PERIOD_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/*
 * Labels that periods always have: service_name, host, boot_id, pid, program, build_id (of the
 * program's file) and heap; if they are known: version, unit, cgroup, container, user. Others come
 * from the configuration. Names match [a-z_][a-z0-9_]*.
 */
struct period_label {
    const char *name, *value;
};

struct period {
    int64_t start_ns, end_ns; /* since 1970 */
    const struct profile *profile;
    const struct profile_heap *heap;
    /* `allocated` of its figures is what was allocated within the period, so that the sum over the
     * periods is the whole; `allocated` - `freed` is what is live at the period's end. So `freed`
     * alone means nothing, and may be negative. The variances are made in the same way. Use
     * period_figures(). */
    const struct profile_dump *dump;
    const struct period_label *labels; /* by name */
    size_t label_count;
    uint64_t interval_bytes; /* at the end */
    bool is_final;           /* the process has ended, or its profile has */
    const char *end_reason;  /* "", "exit 0", "signal 9 (oom)": of a final period */
};

/* A callsite's figures. The estimates are unbiased. */
struct period_figures {
    double alloc_bytes, alloc_count, alloc_bytes_variance, alloc_count_variance; /* of the period */
    double live_bytes, live_count, live_bytes_variance, live_count_variance;     /* at its end */
    uint64_t alloc_samples;                                                      /* of the period */
};

static inline struct period_figures period_figures(const struct trace_figures *figures)
{
    return (struct period_figures){
        .alloc_bytes = figures->allocated_bytes,
        .alloc_count = figures->allocated_count,
        .alloc_bytes_variance = figures->allocated_bytes_variance,
        .alloc_count_variance = figures->allocated_count_variance,
        .live_bytes = figures->allocated_bytes - figures->freed_bytes,
        .live_count = figures->allocated_count - figures->freed_count,
        .live_bytes_variance = figures->allocated_bytes_variance - figures->freed_bytes_variance,
        .live_count_variance = figures->allocated_count_variance - figures->freed_count_variance,
        .alloc_samples = figures->samples,
    };
}

#endif
