/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heaps that the program describes: which there are, which the session wants, and telling the
 * program when that changes.
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_HEAPS_H
#define HEAPPROFD_CLIENT_HEAPS_HEAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/join/invitation.h"
#include "client/sample/heap_states.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"
#include "heap_profile.h"

enum heap_stage { HEAP_FREE = 0, HEAP_DESCRIBED = 1, HEAP_REGISTERED = 2 };

/* A heap, by its id; [0] is unused. Live ids are found in a set of each heap's own. */
struct AHeapInfo {
    struct live_set live;
    struct sampler_rule rule; /* of the session; interval 0: not wanted */
    uint32_t interval_index;
    uint32_t stage;     /* enum heap_stage */
    uint32_t telling;   /* 1 while a thread is in a callback, or about to be */
    uint32_t told;      /* 1: the last callback was the enabled one */
    uint32_t of_ranges; /* 1: of memory that the program maps itself; it has no live ids */
    AHeapProfileEnabledCallback enabled;
    AHeapProfileDisabledCallback disabled;
    void *enabled_data, *disabled_data;
    char name[RING_HEAP_NAME_BYTES];
};

extern HIDDEN struct AHeapInfo heaps[RING_HEAPS_MAX];

/* What the program maps itself (client/heaps/ranges.h): the preload library's own heap. Its id; 0:
 * no session has wanted it yet. */
#define HEAPS_MMAP_NAME "libc.mmap"
extern HIDDEN uint32_t heaps_mmap;

/* Maps what the heaps' lines are found by; 0 or -ENOMEM. Idempotent. */
int heaps_init(void);

/* The session is active: the heaps that it wants count from now on. */
void heaps_begin(void);

/* Forgets lines and live ids, while nobody is inside. */
void heaps_forget(void);

/* In a forked child, which has one thread: its parent's other threads are in no callback here, and
 * the session that the program was told of is not the child's. */
void heaps_after_fork(void);

/* Sends what the daemon must know of a heap before its first sample. */
bool heap_announce(struct ring_thread *thread, uint32_t id);

/* What the heap's word asks of a thread that is inside. Whether the heap counts. */
bool heap_look(struct ring_thread *thread, uint32_t id);

/* Whether a process whose heap is not profiled should look why not. */
static inline bool heaps_are_to_look(void)
{
    return unlikely(load_relaxed(&client.live->state) == CLIENT_NEW) || invitation_is_new();
}

/* Numbers of this thread's lines by heap, plus one; 0: none yet. In memory that is wiped when the
 * session changes, and in a forked child. NULL: the thread has had no line. */
extern HIDDEN __thread uint32_t *heap_line_numbers __attribute__((tls_model("initial-exec")));

/* This thread's line in a heap, or NULL. */
static inline struct ring_thread *heap_line_known(uint32_t id)
{
    const uint32_t *numbers = heap_line_numbers;
    uint32_t number = likely(numbers != NULL) ? load_relaxed(&numbers[id]) : 0;
    return likely(number != 0) ? &client.heap_lines[number - 1] : NULL;
}

/* Return the pending samples of a line. */
static inline struct ring_pending *heap_pending(const struct ring_thread *line)
{
    return &client.pending[RING_THREADS_MAX + (uint32_t)(line - client.heap_lines)];
}

/* The line, a new one if there is none; NULL: none is to be had. */
struct ring_thread *heap_line_get(struct ring_thread *thread, uint32_t id);

#endif
