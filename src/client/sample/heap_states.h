/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rest of the client knows of the program's own heaps: their words, and that the program
 * is to be told of a change.
 *
 * A heap's word says what a report has to do: nothing (it is not profiled), count, or take the slow
 * path (something has changed). Words lie in memory that a forked child finds zeroed.
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

/* The session is over: reports look what to do. From any thread. */
static inline void heap_states_end(void)
{
    for (uint32_t id = 1; id < RING_HEAPS_MAX; id++) {
        uint32_t counts = HEAP_COUNTS;
        cas_relaxed(&client.live->heap_words[id], &counts, HEAP_LOOKS);
    }
    store_release(&client.live->heaps_untold, 1);
}

#ifdef HEAPPROFD_ATTACHED

/* A client that was brought into a process serves malloc alone. */
static inline bool heaps_are_to_be_told(void)
{
    return false;
}
static inline void heaps_tell(void) {}

#else

static inline bool heaps_are_to_be_told(void)
{
    return unlikely(load_relaxed(&client.live->heaps_untold) != 0);
}

/* Tells the program what has changed. To be called by a thread that is not inside. */
void heaps_tell(void);

#endif

#endif
