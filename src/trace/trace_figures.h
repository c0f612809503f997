/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a callsite, a thread or a heap in traces and profiles, and their sums.
 *
 * Every figure is an estimate from samples with its variance. Estimates can be added, and so can
 * the variances of independent samples: a sum of figures is a figure.
 */
#ifndef HEAPPROFD_TRACE_TRACE_FIGURES_H
#define HEAPPROFD_TRACE_TRACE_FIGURES_H

#include <stdint.h>

/* Cumulative since the start. */
struct trace_figures {
    double allocated_bytes, freed_bytes;
    double allocated_count, freed_count;
    /* Variances of the four estimates: sums of s^2 (1-p)/p^2 and (1-p)/p^2. */
    double allocated_bytes_variance, freed_bytes_variance;
    double allocated_count_variance, freed_count_variance;
    uint64_t samples, freed_samples; /* number of records that the estimates come from */
    /* Freed by the allocating thread before it allocated again. */
    double temporary_bytes, temporary_count;
    double lifetime_ms_sum; /* over freed allocations, weighted by count */
};

/* What was live when the heap's estimate of live bytes was highest. */
struct trace_peak_figures {
    double bytes, count;
    double bytes_variance, count_variance;
    double samples; /* number of records that the estimates come from; 0: unknown */
};

static inline void trace_figures_add(struct trace_figures *sum, const struct trace_figures *more)
{
    sum->allocated_bytes += more->allocated_bytes;
    sum->freed_bytes += more->freed_bytes;
    sum->allocated_count += more->allocated_count;
    sum->freed_count += more->freed_count;
    sum->allocated_bytes_variance += more->allocated_bytes_variance;
    sum->freed_bytes_variance += more->freed_bytes_variance;
    sum->allocated_count_variance += more->allocated_count_variance;
    sum->freed_count_variance += more->freed_count_variance;
    sum->samples += more->samples;
    sum->freed_samples += more->freed_samples;
    sum->temporary_bytes += more->temporary_bytes;
    sum->temporary_count += more->temporary_count;
    sum->lifetime_ms_sum += more->lifetime_ms_sum;
}

/* Return the figures with the opposite sign. Adding them subtracts; numbers of records wrap around.
 */
static inline struct trace_figures trace_figures_negate(const struct trace_figures *figures)
{
    return (struct trace_figures){
        .allocated_bytes = -figures->allocated_bytes,
        .freed_bytes = -figures->freed_bytes,
        .allocated_count = -figures->allocated_count,
        .freed_count = -figures->freed_count,
        .allocated_bytes_variance = -figures->allocated_bytes_variance,
        .freed_bytes_variance = -figures->freed_bytes_variance,
        .allocated_count_variance = -figures->allocated_count_variance,
        .freed_count_variance = -figures->freed_count_variance,
        .samples = -figures->samples,
        .freed_samples = -figures->freed_samples,
        .temporary_bytes = -figures->temporary_bytes,
        .temporary_count = -figures->temporary_count,
        .lifetime_ms_sum = -figures->lifetime_ms_sum,
    };
}

static inline void trace_peak_figures_add(struct trace_peak_figures *sum,
                                          const struct trace_peak_figures *more)
{
    sum->bytes += more->bytes;
    sum->count += more->count;
    sum->bytes_variance += more->bytes_variance;
    sum->count_variance += more->count_variance;
    sum->samples += more->samples;
}

#endif
