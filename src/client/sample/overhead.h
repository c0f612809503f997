/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a session whose interval nobody gave: the profile may cost a share of the program's
 * own processor time. Until that is spent, the interval is 1: every allocation is recorded. Then it
 * becomes the wide one (4096), and if that costs too much, it doubles. With room, it returns
 * (adaptive.h has the intervals).
 *
 * The cost is measured. Of the samples and their frees one in PART is timed here; the daemon
 * publishes its own processor time for the ring, and a record's length says what share of it the
 * record costs. Only what the next wider interval would save counts against the budget: samples of
 * blocks below it, and their frees. Blocks above it would be sampled all the same.
 *
 * The unspent budget is kept, up to that of a second. So the cost of a long run stays within the
 * share, and a short burst is recorded in full. The first samples of a process are free.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_OVERHEAD_H
#define HEAPPROFD_CLIENT_SAMPLE_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/clock.h"

/* Begin a session. The share is 0 if the session's interval is given. */
void overhead_begin(uint32_t max_overhead_percent);

/* Return whether to time an event with this number: one in OVERHEAD_PART while every allocation is
 * recorded, else each. Fibonacci hashing spreads them evenly, so that no pattern of the program is
 * always hit, or never. */
#define OVERHEAD_PART 16u
static inline bool overhead_is_timed(uint32_t number)
{
    const struct client_overhead *overhead = &client.process->overhead;
    if (load_relaxed(&overhead->max_percent) == 0)
        return false;
    return number * UINT32_C(0x9E3779B1) < UINT32_MAX / OVERHEAD_PART ||
           load_relaxed(&client.process->interval_index) != 0;
}

/* Return the time at which an event begins that is timed; 0: it is not. */
static inline uint64_t overhead_begin_event(uint32_t number)
{
    return unlikely(overhead_is_timed(number)) ? clock_now_ns() : 0;
}

/* Account a sample of `size` bytes, or a free, that began then, and change the interval if it is
 * time to. */
void overhead_note_sample(struct ring_thread *thread, uint64_t begun_ns, uint64_t size);
void overhead_note_free(uint64_t begun_ns);

static inline void overhead_end_sample(struct ring_thread *thread, uint64_t begun_ns, uint64_t size)
{
    if (unlikely(begun_ns != 0))
        overhead_note_sample(thread, begun_ns, size);
}

static inline void overhead_end_free(uint64_t begun_ns)
{
    if (unlikely(begun_ns != 0))
        overhead_note_free(begun_ns);
}

#endif
