/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that one thread and its signal handlers change. A signal cannot interrupt a change half
 * way, so no change is lost. Other threads only read them. On x86-64 that takes one memory
 * instruction, without a lock prefix.
 */
#ifndef HEAPPROFD_CLIENT_ARCH_COUNTER_H
#define HEAPPROFD_CLIENT_ARCH_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/barrier.h"

static inline void counter_add_own(uint64_t *counter, uint64_t value)
{
#if defined(__x86_64__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(value) : "cc");
#else
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
#endif
}

/* Subtract, and return whether the counter, as a signed number, is now below 0. */
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

/* Return whether the byte at base + *distance + index is not 0. Any thread may change both words.
 * (gcc makes two instructions of an atomic load and its use.) */
static inline bool counter_is_set(const uint8_t *base, const uintptr_t *distance, uintptr_t index)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    bool is_set;
    __asm__ volatile("addq %[distance], %[index]\n\tcmpb $0, (%[base],%[index])"
                     : "=@ccne"(is_set), [index] "+&r"(index)
                     : [distance] "m"(*distance), [base] "r"(base)
                     : "cc");
    return is_set;
#else
    return load_relaxed((const uint8_t *)((uintptr_t)base + load_relaxed(distance) + index)) != 0;
#endif
}

#endif
