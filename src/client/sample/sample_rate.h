/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of what samples cost: a limit of samples for each second of the process's processor
 * time. While more come, the intervals of malloc and of all heaps double; when they would stay well
 * below the limit with shorter ones, those return (adaptive.h). Each sample keeps its true weight.
 *
 * An interval of 1 is never changed: it promises every allocation.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_SAMPLE_RATE_H
#define HEAPPROFD_CLIENT_SAMPLE_SAMPLE_RATE_H

#include <stdint.h>

#include "client/client.h"

/* The limit of a process whose heap python.object is profiled, if the session gives none. A sample
 * costs about 1 us, and the interpreter's caches. */
#define SAMPLE_RATE_PYTHON 10000u

/* Begin a session with malloc's interval. */
void sample_rate_begin(uint64_t interval_bytes);

/* The heap python.object is profiled, with this interval. */
void sample_rate_begin_python(uint64_t interval_bytes);

/* The slow half of sample_rate_count(). `samples`: since the last check. */
void sample_rate_check(struct ring_thread *thread, uint32_t limit, uint32_t samples);

/* Count a sample that was committed, and change the intervals if it is time to. */
static inline void sample_rate_count(struct ring_thread *thread)
{
    uint32_t limit = load_relaxed(&client.process->samples_limit);
    if (limit == 0)
        return;
    uint32_t samples = add_relaxed(&client.process->rate_samples, 1) + 1;
    if (unlikely(samples % 64 == 0))
        sample_rate_check(thread, limit, samples);
}

#endif
