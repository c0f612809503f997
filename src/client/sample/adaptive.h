/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive sampling: when the ring is nearly full, the process doubles its sampling interval, up to
 * a bound, instead of waiting or losing samples.
 *
 * Intervals are numbered; 0 is the session's own. Each sample carries the number of the interval
 * that drew its gap, and the daemon learns an interval before its first sample. So every sample
 * keeps its true weight.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H
#define HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H

#include <stdint.h>

#include "client/client.h"
#include "client/sample/sampler.h"

/* The number of the interval in force. */
static inline uint32_t adaptive_index(void)
{
    return load_acquire(&client.process->interval_index);
}

/* Begin a session with its own rule, which is that of interval 0. */
void adaptive_begin(struct sampler_rule rule);

/* Return the sampling rule of the interval with this number. */
const struct sampler_rule *adaptive_rule(uint32_t index);

/* Double the interval if the ring is nearly full. Call it after a sample was committed. */
void adaptive_adjust(struct ring_thread *thread);

#endif
