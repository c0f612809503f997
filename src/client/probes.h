/* SPDX-License-Identifier: Apache-2.0 */
/*
 * USDT probes, by which other tracers (eBPF profilers, bpftrace, perf, gdb) see the samples:
 *
 *   otel_memory:alloc(user_ptr, size, weighted_bytes)   a sampled allocation, before the program
 *                                                       has its address
 *   otel_memory:free(ptr)                               its free, before the allocator gets it back
 *
 * A tracer that attaches to a probe increments the probe's semaphore, which is in our memory. While
 * it is 0, a sample costs one load and one branch for its probe.
 *
 * While a tracer listens to `alloc`, a preloaded process samples malloc's heap without a session,
 * too (CLIENT_LISTENED). The interval is $HEAPPROFD_USDT_INTERVAL.
 *
 * An attached client has no probes: tracers place them by a file's ELF notes, and it is no file.
 */
#ifndef HEAPPROFD_CLIENT_PROBES_H
#define HEAPPROFD_CLIENT_PROBES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/sample/sampler.h"

#define PROBES_INTERVAL_ENV "HEAPPROFD_USDT_INTERVAL"
#define PROBES_INTERVAL_DEFAULT UINT64_C(524288)
#define PROBES_INTERVAL_MAX (UINT64_C(1) << 30)

#if defined(HEAPPROFD_USDT) && !defined(HEAPPROFD_ATTACHED)

#define PROBES_JOIN_(provider, name) provider##_##name##_semaphore
#define PROBES_JOIN(provider, name) PROBES_JOIN_(provider, name)
#define PROBES_ALLOC_SEMAPHORE PROBES_JOIN(HEAPPROFD_USDT_PROVIDER, alloc)
#define PROBES_FREE_SEMAPHORE PROBES_JOIN(HEAPPROFD_USDT_PROVIDER, free)

/* The number of tracers that listen. The kernel or a debugger changes it at any time. */
extern HIDDEN volatile unsigned short PROBES_ALLOC_SEMAPHORE, PROBES_FREE_SEMAPHORE;

static inline bool probes_want_allocations(void)
{
    return unlikely(PROBES_ALLOC_SEMAPHORE != 0);
}

static inline bool probes_want_frees(void)
{
    return unlikely(PROBES_FREE_SEMAPHORE != 0);
}

/* Make the caller keep a frame pointer, so that tracers that follow these see the program's frames
 * beyond ours. */
static inline __attribute__((always_inline)) void probes_keep_frame(void)
{
    __asm__ volatile("" ::"r"(__builtin_frame_address(0)));
}

/* Fire the probe of an allocation that was sampled by this rule. */
void probes_fire_allocation(uint64_t address, uint64_t size, const struct sampler_rule *rule);
void probes_fire_free(uint64_t address);

/* Read the interval from the environment. */
void probes_init(void);

/* Return the rule for samples without a session. */
const struct sampler_rule *probes_rule(void);

#else

static inline bool probes_want_allocations(void)
{
    return false;
}
static inline bool probes_want_frees(void)
{
    return false;
}
static inline void probes_keep_frame(void) {}
static inline void probes_fire_allocation(uint64_t address, uint64_t size,
                                          const struct sampler_rule *rule)
{
    (void)address;
    (void)size;
    (void)rule;
}
static inline void probes_fire_free(uint64_t address)
{
    (void)address;
}
static inline void probes_init(void) {}
static inline const struct sampler_rule *probes_rule(void)
{
    static const struct sampler_rule none;
    return &none;
}

#endif

/* Return whether a process without a session should sample: it hooks malloc, and a tracer listens.
 */
static inline bool probes_want_samples(void)
{
#ifdef HEAPPROFD_NO_HOOKS
    return false;
#else
    return probes_want_allocations();
#endif
}

#endif
