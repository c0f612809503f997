/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the live memory of a callsite was allocated: by slices of the time since the start of the
 * process's profile. A slice takes 2^k ms, with the smallest k by which the time until the dump has
 * at most TRACE_TIME_SLICES. So it has more than half as many, and two dumps have the same slices
 * or those of one are a power of two of the other's.
 */
#ifndef HEAPPROFD_TRACE_LIVE_TIMES_H
#define HEAPPROFD_TRACE_LIVE_TIMES_H

#include <stdint.h>

#define TRACE_TIME_SLICES 32u

struct trace_live_times {
    uint64_t slice_ms;  /* 0: nothing is known */
    uint64_t oldest_ms; /* time of the oldest allocation */
    uint32_t samples[TRACE_TIME_SLICES];
    double bytes[TRACE_TIME_SLICES]; /* that the samples stand for */
};

/* Return the width of a slice for so much time. */
static inline uint64_t trace_slice_ms(uint64_t time_ms)
{
    uint64_t slice_ms = 1;
    while (time_ms / slice_ms >= TRACE_TIME_SLICES)
        slice_ms *= 2;
    return slice_ms;
}

/* Add one sample. Times beyond the last slice count in it. */
static inline void trace_live_times_add(struct trace_live_times *times, uint64_t time_ms,
                                        double bytes, uint32_t samples)
{
    uint64_t slice = time_ms / times->slice_ms;
    slice = slice < TRACE_TIME_SLICES ? slice : TRACE_TIME_SLICES - 1;
    if (time_ms < times->oldest_ms)
        times->oldest_ms = time_ms;
    times->samples[slice] += samples;
    times->bytes[slice] += bytes;
}

#endif
