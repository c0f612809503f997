/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of one thread that its own signal handlers change, too: each change is one step, so
 * that none is lost whatever it interrupts. Other threads only read them; on x86-64 one
 * instruction on memory is such a step, without the cost of a lock.
 */
#ifndef HEAPPROFD_CLIENT_ARCH_COUNTER_H
#define HEAPPROFD_CLIENT_ARCH_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

static inline void counter_add_own(uint64_t *counter, uint64_t value)
{
#if defined(__x86_64__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(value) : "cc");
#else
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
#endif
}

/* Whether the counter, taken as signed, is below 0 afterwards. */
static inline bool counter_subtract_own(uint64_t *counter, uint64_t value)
{
#if defined(__x86_64__)
    bool below;
    __asm__("subq %2, %0" : "+m"(*counter), "=@ccs"(below) : "er"(value) : "cc");
    return below;
#else
    return (int64_t)__atomic_sub_fetch(counter, value, __ATOMIC_RELAXED) < 0;
#endif
}

#endif
