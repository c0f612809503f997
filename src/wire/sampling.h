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

#include <stdbool.h>
#include <stdint.h>

/* malloc's interval if the session does not profile it: a sample in 36 petabytes, which the daemon
 * ignores. */
#define SAMPLING_NEVER_BYTES (UINT64_C(1) << 55)

/* From here on an interval means that nothing is sampled: continuous mode asks for one (the largest
 * that the wire has) if a program allocates more than its budget allows. */
#define SAMPLING_OFF_BYTES (UINT64_C(1) << 50)
static inline bool sampling_is_off(uint64_t interval_bytes)
{
    return interval_bytes >= SAMPLING_OFF_BYTES;
}

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

/*
 * Return s/p, the bytes that a sampled allocation stands for, to the nearest whole number, or to
 * one part in 10^8, from integers only.
 *
 * With x = s/T: s / (1 - exp(-x)) = s/2 + T h(x/2) for h(u) = u coth u, and
 * h(2u) = h(u) + u^2/h(u). So the series of h is needed only for small u, and no step cancels.
 */
static inline uint64_t sampling_weighted_bytes(uint64_t size, uint64_t interval_bytes)
{
    if (size == 0 || size >= sampling_certain_bytes(interval_bytes))
        return size;
    /* Fixed point, 30 bits after the point. x < 4.61, so u < 0.145 after four halvings. */
    const unsigned point = 30, halvings = 4;
    const uint64_t one = UINT64_C(1) << point;
    uint64_t u = (uint64_t)(((unsigned __int128)size << (point - 1 - halvings)) / interval_bytes);
    uint64_t square = u * u >> point; /* u^2 */
    uint64_t h = one + square / 3 - (square * square >> point) / 45;
    for (unsigned i = 0; i < halvings; i++, u *= 2)
        h += u * u / h;
    unsigned __int128 weighted =
        ((unsigned __int128)size << (point - 1)) + (unsigned __int128)interval_bytes * h;
    return (uint64_t)((weighted + one / 2) >> point);
}

#endif
