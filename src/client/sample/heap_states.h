/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of each custom heap (client_process.heap_states). It decides what a report of an
 * allocation does.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_HEAP_STATES_H
#define HEAPPROFD_CLIENT_SAMPLE_HEAP_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

enum heap_state {
    HEAP_IDLE = 0,    /* nothing: the heap is not profiled */
    HEAP_COUNTS = 1,  /* count, and perhaps sample */
    HEAP_CHANGED = 2, /* take the slow path: the session has begun or ended */
};

/* The session is over: send all reports to the slow path. Any thread may call it. */
static inline void heap_states_end(void)
{
    for (uint32_t id = 1; id < RING_HEAPS_MAX; id++) {
        uint32_t counts = HEAP_COUNTS;
        cas_relaxed(&client.process->heap_states[id], &counts, HEAP_CHANGED);
    }
    store_release(&client.process->heaps_callbacks_due, 1);
}

#ifdef HEAPPROFD_ATTACHED

/* An attached client has no callbacks of the program. */
static inline bool heaps_have_due_callbacks(void)
{
    return false;
}
static inline void heaps_run_callbacks(void) {}

#else

static inline bool heaps_have_due_callbacks(void)
{
    return unlikely(load_relaxed(&client.process->heaps_callbacks_due) != 0);
}

/* Call the program's callbacks for heaps whose profiling began or ended. The calling thread must
 * not be in the client. */
void heaps_run_callbacks(void);

#endif

#endif
