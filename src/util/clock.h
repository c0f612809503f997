/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of the kernel, read as integers. */
#ifndef HEAPPROFD_UTIL_CLOCK_H
#define HEAPPROFD_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_read_us(clockid_t clock)
{
    return clock_read_ns(clock) / 1000;
}

static inline uint64_t clock_read_ms(clockid_t clock)
{
    return clock_read_ns(clock) / 1000000;
}

/* Return the earlier of two times. UINT64_MAX stands for never. */
static inline uint64_t clock_earlier(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

#endif
