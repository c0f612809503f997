/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling rule: the client samples by it and the daemon weights by it.
 *
 * At interval T an allocation of s bytes is sampled with probability
 *   p(s) = 1 - exp(-max(s, 1) / T),   and p(s) = 1 from s >= sampling_certain_bytes(T) on
 * (Poisson sampling over bytes; a gap between samples is exponential with mean T). It then stands
 * for s/p bytes and 1/p allocations (Horvitz and Thompson, 1952). At T = 1 every allocation is
 * sampled, p = 1.
 */
#ifndef HEAPPROFD_WIRE_SAMPLING_H
#define HEAPPROFD_WIRE_SAMPLING_H

#include <stdint.h>

/* Return T ln 100: beyond it p exceeds 99 %, and certainty costs less than the variance. */
static inline uint64_t sampling_certain_bytes(uint64_t interval_bytes)
{
    if (interval_bytes <= 1)
        return 0;
    if (interval_bytes > UINT64_MAX / 8)
        return UINT64_MAX;
    /* ln 100 = 4.605170186; computed in two halves to fit in 64 bits. */
    const uint64_t billion = 1000000000, times = 4605170186;
    return interval_bytes / billion * times + interval_bytes % billion * times / billion + 1;
}

#endif
