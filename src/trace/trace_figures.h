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

/* Cumulative since the start. What an allocation changes comes first: it is in one cache line of
 * the daemon. */
struct trace_figures {
    double allocated_bytes, allocated_count;
    /* Variances of both estimates: sums of s^2 (1-p)/p^2 and (1-p)/p^2. */
    double allocated_bytes_variance, allocated_count_variance;
    uint64_t samples; /* number of records that the estimates come from */
    double freed_bytes, freed_count;
    double freed_bytes_variance, freed_count_variance;
    uint64_t freed_samples; /* of a period: modulo 2^64, see trace_figures_live_samples() */
    double lifetime_ms_sum; /* over freed allocations, weighted by count */
    /* Freed by the allocating thread before it allocated again. */
    double temporary_bytes, temporary_count;
};

/* What was live when the heap's estimate of live bytes was highest. */
struct trace_peak_figures {
    double bytes, count;
    double bytes_variance, count_variance;
    double samples; /* number of records that the estimates come from; 0: unknown */
};

/* All members, each with the name of its field number in HeapFigures. */
#define TRACE_FIGURES(USE)                                                                         \
    USE(allocated_bytes, PB_HEAP_FIGURES_ALLOCATED_BYTES)                                          \
    USE(freed_bytes, PB_HEAP_FIGURES_FREED_BYTES)                                                  \
    USE(allocated_count, PB_HEAP_FIGURES_ALLOCATED_COUNT)                                          \
    USE(freed_count, PB_HEAP_FIGURES_FREED_COUNT)                                                  \
    USE(allocated_bytes_variance, PB_HEAP_FIGURES_ALLOCATED_BYTES_VARIANCE)                        \
    USE(freed_bytes_variance, PB_HEAP_FIGURES_FREED_BYTES_VARIANCE)                                \
    USE(allocated_count_variance, PB_HEAP_FIGURES_ALLOCATED_COUNT_VARIANCE)                        \
    USE(freed_count_variance, PB_HEAP_FIGURES_FREED_COUNT_VARIANCE)                                \
    USE(samples, PB_HEAP_FIGURES_SAMPLES)                                                          \
    USE(freed_samples, PB_HEAP_FIGURES_FREED_SAMPLES)                                              \
    USE(temporary_bytes, PB_HEAP_FIGURES_TEMPORARY_BYTES)                                          \
    USE(temporary_count, PB_HEAP_FIGURES_TEMPORARY_COUNT)                                          \
    USE(lifetime_ms_sum, PB_HEAP_FIGURES_LIFETIME_MS_SUM)

/* Return the number of live samples. What is live can be from before the time in which `samples`
 * were allocated: then freed_samples is below 0, modulo 2^64. */
static inline uint64_t trace_figures_live_samples(const struct trace_figures *figures)
{
    int64_t live = (int64_t)(figures->samples - figures->freed_samples);
    return live > 0 ? (uint64_t)live : 0;
}

static inline void trace_figures_add(struct trace_figures *sum, const struct trace_figures *more)
{
#define ADD(member, number) sum->member += more->member;
    TRACE_FIGURES(ADD)
#undef ADD
}

static inline void trace_figures_subtract(struct trace_figures *sum,
                                          const struct trace_figures *less)
{
#define SUBTRACT(member, number) sum->member -= less->member;
    TRACE_FIGURES(SUBTRACT)
#undef SUBTRACT
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
