/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive sampling: where the ring is nearly full the process doubles its sampling interval, again
 * and again up to a bound, rather than wait or lose samples.
 *
 * Intervals are numbered; 0 is the session's own. Each sample says by which one its gap was drawn,
 * and the daemon has been told of that one before, so that all are weighed right.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H
#define HEAPPROFD_CLIENT_SAMPLE_ADAPTIVE_H

#include <stdint.h>

#include "client/client.h"
#include "client/sample/sampler.h"

/* The number of the interval in force. */
static inline uint32_t adaptive_index(void)
{
    return load_acquire(&client.live->interval_index);
}

/* The rule of an interval's number. */
const struct sampler_rule *adaptive_rule(uint32_t index);

/* To be called after a sample was committed: lengthens the interval if it is time to. */
void adaptive_look(struct ring_thread *thread);

#endif
