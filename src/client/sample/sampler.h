/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling over bytes, one sampler a thread (wire/sampling.h has the
 * rule). Integers only: the target's floating-point state is its own.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_SAMPLER_H
#define HEAPPROFD_CLIENT_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/ring.h"
#include "wire/sampling.h"

struct sampler_rule {
    uint64_t interval_bytes; /* of the session (trace/config/trace_config.h has its default) */
    uint64_t certain_bytes;  /* sampling_certain_bytes(interval_bytes) */
    uint32_t number;         /* of the interval: how often the session's was doubled */
};

/* Return the rule with this interval. */
static inline struct sampler_rule sampler_rule_of(uint64_t interval_bytes, uint32_t number)
{
    return (struct sampler_rule){interval_bytes, sampling_certain_bytes(interval_bytes), number};
}

/* Seed a thread's sampler and draw its first gap by the rule. The line's totals stay. */
void sampler_start(struct ring_thread *thread, struct ring_pending *pending, uint64_t seed,
                   const struct sampler_rule *rule);

/* Make the totals of a dead thread's line consistent: the thread may have died while it counted. */
void sampler_inherit(struct ring_thread *thread, struct ring_pending *pending);

/* Count one allocation of size bytes that the hot path did not count. Return whether it is sampled;
 * it is then pending. `rule` is that of thread->rule as the caller saw it, by which the allocation
 * is sampled; `next` is in force: it draws the next gap, or what is left of the present one if it
 * differs, and thread->rule is set to it. */
bool sampler_count(struct ring_thread *thread, struct ring_pending *pending, uint64_t size,
                   const struct sampler_rule *rule, const struct sampler_rule *next);

/* Subtract samples (ring_pending_word()) from what is pending: they are in the ring, or counted as
 * lost. */
void sampler_settle(struct ring_pending *pending, uint64_t samples);

/* Make the line's next allocation take the slow path. The gap and the totals stay. */
void sampler_call_next(struct ring_thread *thread, struct ring_pending *pending);

/* Count calls and their bytes without a session: no samples are drawn until the next tick. */
void sampler_idle(struct ring_thread *thread, struct ring_pending *pending, uint64_t calls,
                  uint64_t bytes);

/* The next 64 bits of a thread's generator. */
uint64_t sampler_random(uint64_t *state);

#endif
