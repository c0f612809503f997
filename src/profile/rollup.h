/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is added up of a dump's samples (sums.h), its whole, and what the whole is calibrated with.
 */
#ifndef HEAPPROFD_PROFILE_ROLLUP_H
#define HEAPPROFD_PROFILE_ROLLUP_H

#include "profile/confidence_interval.h"
#include "profile/profile.h"

struct rollup_values {
    struct trace_figures figures;
    struct trace_peak_figures peak;
};

/* Live bytes and count with their variances: what was allocated less what was freed. Below 0 in a
 * difference of two profiles, and where frees are known whose allocations are not; less than half a
 * byte or allocation is rounding. */
static inline double rollup_live(double allocated, double freed)
{
    double live = allocated - freed;
    return live > 0 || live <= -0.5 ? live : 0;
}

static inline double rollup_live_bytes(const struct trace_figures *figures)
{
    return rollup_live(figures->allocated_bytes, figures->freed_bytes);
}

static inline double rollup_live_count(const struct trace_figures *figures)
{
    return rollup_live(figures->allocated_count, figures->freed_count);
}

/* Return the variance of the live bytes or count. A freed sample takes the variance of its
 * allocation with it. */
double rollup_live_bytes_variance(const struct trace_figures *figures);
double rollup_live_count_variance(const struct trace_figures *figures);
/* Return all of these as one estimate. */
struct profile_estimate rollup_live_of(const struct trace_figures *figures);
static inline struct profile_estimate rollup_allocated_of(const struct trace_figures *figures)
{
    return (struct profile_estimate){
        .bytes = figures->allocated_bytes,
        .count = figures->allocated_count,
        .bytes_variance = figures->allocated_bytes_variance,
        .count_variance = figures->allocated_count_variance,
        .samples = (double)figures->samples,
    };
}

/* Return what the dump's samples were calibrated with. */
struct profile_calibration rollup_calibration_of(const struct profile_heap *heap,
                                                 const struct profile_dump *dump);

/* Return the upper limit of all figures of the dump, in bytes or calls: the heap's exact total. 0:
 * unknown. */
double rollup_most(const struct profile_heap *heap, const struct profile_dump *dump, bool counts);

/* Return whether all calls of the dump's time were counted. */
bool rollup_totals_are_exact(const struct profile_heap *heap, const struct profile_dump *dump);

static inline void rollup_values_add(struct rollup_values *sum, const struct rollup_values *more)
{
    trace_figures_add(&sum->figures, &more->figures);
    trace_peak_figures_add(&sum->peak, &more->peak);
}

static inline struct rollup_values rollup_values_of(const struct profile_sample *sample)
{
    return (struct rollup_values){sample->figures, sample->peak};
}

/* Return the sum over a dump, including what a filter left out. */
struct rollup_values rollup_total_of(const struct profile_dump *dump);

/* Set the dump's peak_bytes_bias and peak_count_bias by its samples. */
void rollup_find_peak_bias(struct profile_dump *dump);

/* Return the size of a heap: the most bytes that it is known to have held, and the total bytes
 * allocated in it. */
struct rollup_size {
    double held, allocated;
};
struct rollup_size rollup_size_of(const struct profile_dump *dump);
/* Compare for qsort, the larger one first. */
int rollup_size_compare(const struct rollup_size *left, const struct rollup_size *right);

#endif
