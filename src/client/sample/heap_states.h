/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of each heap that the program registered. It decides what a report does: nothing (the
 * heap is not profiled), count, or take the slow path (something has changed). The states are in
 * memory that is wiped on fork.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_HEAP_STATES_H
#define HEAPPROFD_CLIENT_SAMPLE_HEAP_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

enum heap_word {
    HEAP_IDLE = 0,
    HEAP_COUNTS = 1,
    HEAP_LOOKS = 2, /* takes the slow path */
};

/* The session is over: send all reports to the slow path. Any thread may call it. */
static inline void heap_states_end(void)
{
    for (uint32_t id = 1; id < RING_HEAPS_MAX; id++) {
        uint32_t counts = HEAP_COUNTS;
        cas_relaxed(&client.live->heap_words[id], &counts, HEAP_LOOKS);
    }
    store_release(&client.live->heaps_callbacks_due, 1);
}

#ifdef HEAPPROFD_ATTACHED

/* An attached client profiles malloc only. */
static inline bool heaps_have_due_callbacks(void)
{
    return false;
}
static inline void heaps_run_callbacks(void) {}

#else

static inline bool heaps_have_due_callbacks(void)
{
    return unlikely(load_relaxed(&client.live->heaps_callbacks_due) != 0);
}

/* Call the program's callbacks for heaps whose profiling began or ended. The calling thread must
 * not be in the client. */
void heaps_run_callbacks(void);

#endif

#endif
