/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive sampling: when the ring is nearly full, the process doubles its sampling interval, up to
 * a bound, instead of waiting or losing samples. The daemon can ask for another one, too
 * (asked_doublings in wire/ring.h); until it has done so once more than at the start, the process
 * doubles its interval every few samples.
 *
 * Intervals are numbered by how often the session's own was doubled. In a session with a limit of
 * overhead (overhead.h), 0 is the interval 1, 1 the wide interval, and so on. Each sample carries
 * the number of the interval that drew its gap, and the daemon learns an interval before its first
 * sample. So every sample keeps its true weight.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H
#define HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/sample/sampler.h"

/* Intervals have numbers below this. */
#define ADAPTIVE_RULES_MAX (RING_DOUBLINGS_MAX + 1)

/* The number of the interval in force. */
static inline uint32_t adaptive_index(void)
{
    return load_acquire(&client.process->interval_index);
}

/* Begin a session with its own rule, which is that of interval 0. */
void adaptive_begin(struct sampler_rule rule);

/* Return the sampling rule of the interval with this number. */
const struct sampler_rule *adaptive_rule(uint32_t index);

/* Put the interval with this number in force, for malloc and for the other heaps. Return false if
 * there was no room for its record. */
bool adaptive_change(struct ring_thread *thread, uint32_t index);

/* Return the interval with this number of a heap whose first one is given. */
static inline uint64_t adaptive_interval(uint64_t interval_bytes, uint32_t index)
{
    if (client.wide_interval_bytes != 0 && index > 0) {
        if (interval_bytes != 1)
            return interval_bytes; /* malloc's if it is not profiled */
        interval_bytes = client.wide_interval_bytes;
        index--;
    }
    return interval_bytes <= UINT64_MAX / 8 >> index ? interval_bytes << index : interval_bytes;
}

/* Return the interval after that with this number, of the heaps that begin with 1. */
static inline uint64_t adaptive_wider_bytes(uint32_t index)
{
    return adaptive_interval(1, index + 1);
}

/* Return whether intervals of 1 may be widened. */
static inline bool adaptive_is_limited(void)
{
    return client.wide_interval_bytes != 0;
}

/* Return the number that the daemon asks for; 0 without a request. */
static inline uint32_t adaptive_asked(void)
{
    return ring_asked_doublings(load_relaxed(&client.process->served_doublings));
}

/* Take the interval that the daemon asks for. Call it outside of samples. */
void adaptive_serve(struct ring_thread *thread);

/* The same, or double the interval if the ring is nearly full. Call it after a sample was
 * committed.
 */
void adaptive_adjust(struct ring_thread *thread);

#endif
