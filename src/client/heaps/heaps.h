/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom heaps: the registered heaps, the session's choice among them, and the program's callbacks
 * when that choice changes. A thread counts its calls in a line of its own for each heap that it
 * uses (wire/ring.h).
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_HEAPS_H
#define HEAPPROFD_CLIENT_HEAPS_HEAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/invitation.h"
#include "client/sample/adaptive.h"
#include "client/sample/heap_states.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"
#include "heap_profile.h"
#include "wire/allocator_functions.h"
#include "wire/sampling.h"

enum heap_stage { HEAP_FREE = 0, HEAP_DESCRIBED = 1, HEAP_REGISTERED = 2 };

/* A heap. Each one has its own set of live allocations. */
struct AHeapInfo {
    struct live_set live;
    struct sampler_rule rule; /* of the session, not doubled; interval 0: not profiled */
    /* By number of doublings (sample/adaptive.h): the number under which the daemon has the
     * interval; 0: it does not have it yet. */
    uint32_t interval_numbers[ADAPTIVE_RULES_MAX];
    uint32_t stage;       /* enum heap_stage */
    uint32_t in_callback; /* 1 while a thread calls a callback, or is about to */
    uint32_t was_enabled; /* 1: the last call was that of the enabled callback */
    uint32_t of_ranges;   /* 1: the heap libc.mmap, which has no set of live allocations */
    uint32_t is_family;   /* 1: an allocator of a library (hooks/families.h), profiled by default */
    uint32_t is_python;   /* 1: python.object: its set of live allocations has the size of malloc's,
                             and a thread's cell leads to its line */
    AHeapProfileEnabledCallback enabled;
    AHeapProfileDisabledCallback disabled;
    void *enabled_data, *disabled_data;
    char name[RING_HEAP_NAME_BYTES];
};

/* An attached client has no heap but python.object, and those of families. */
#ifdef HEAPPROFD_ATTACHED
#define HEAPS_MAX (2u + FAMILIES_MAX)
#else
#define HEAPS_MAX RING_HEAPS_MAX
#endif

/* By id; [0] is unused. */
extern HIDDEN struct AHeapInfo heaps[HEAPS_MAX];

/* The id of the preload library's heap of mapped memory (ranges.h); 0: no session has asked for it
 * yet. */
#define HEAPS_MMAP_NAME "libc.mmap"
extern HIDDEN uint32_t heaps_mmap;

/* Map the table of all threads' lines. Return 0 or -ENOMEM. Idempotent. */
int heaps_init(void);

/* Forget which line each thread has. No thread may be in the client. */
void heap_lines_forget(void);

/* Return the session's rule for heaps of this name; NULL: none. */
const struct ring_heap_rule *heap_find_rule(const char *name);

/* Apply the session's rule to one heap. It counts as soon as its state says so. */
void heap_begin(uint32_t id);

/* The session is active: begin to count the heaps that it profiles. */
void heaps_begin(void);

/* Return whether the active session profiles the heap. */
bool heaps_want(const struct AHeapInfo *heap);

/* Forget lines and live allocations. No thread may be in the client. */
void heaps_forget(void);

/* Reset the callbacks' state in a forked child. It has one thread, which is in no callback, and the
 * parent's session is not the child's. */
void heaps_after_fork(void);

/* Return the number of the interval by which to draw the heap's next gap: that in force, or
 * `drawn_by` if it cannot be announced. An interval of 1 stays unless the session has a limit of
 * overhead. */
uint32_t heap_doublings(struct ring_thread *thread, uint32_t id, uint32_t drawn_by);

/* Return the heap's rule with this number of doublings. */
static inline struct sampler_rule heap_rule(const struct AHeapInfo *heap, uint32_t doublings)
{
    if (likely(doublings == 0))
        return heap->rule;
    return sampler_rule_of(adaptive_interval(heap->rule.interval_bytes, doublings), doublings);
}

/* The slow halves of reports. Return whether the allocation was sampled; whether the freed one was.
 * heap_report_unfree() takes such a free back. `flags`: of the sample's record. */
struct unwind_registers;
bool heap_report_typed(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                       uint32_t flags, const struct unwind_registers *caller);
bool heap_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                            const struct unwind_registers *caller);
bool heap_report_free(uint32_t id, uint64_t allocation);
void heap_report_unfree(uint32_t id, uint64_t allocation);

/* Act on the heap's state. The thread is inside. Return whether the heap counts. */
bool heap_apply_state(struct ring_thread *thread, uint32_t id);

/* Return whether a report to an unprofiled heap should take the slow path: the state may change. */
static inline bool heaps_should_check(void)
{
#ifdef HEAPPROFD_ATTACHED
    return unlikely(load_relaxed(&client.process->state) == CLIENT_NEW);
#else
    return unlikely(load_relaxed(&client.process->state) == CLIENT_NEW) || invitation_is_new();
#endif
}

#ifdef HEAPPROFD_ATTACHED

/* Return this thread's line in a heap other than the first, or NULL. */
struct ring_thread *heap_line_find(uint32_t id);

/* Return this thread's line in a heap, or NULL. */
static inline struct ring_thread *heap_line_known(uint32_t id)
{
    return likely(id == 1) ? load_relaxed(&client_own_cell()->python) : heap_line_find(id);
}

#else

/* This thread's line numbers by heap, plus one; 0: no line yet. Wiped when the session changes, and
 * on fork. NULL: the thread has never had a line. */
extern HIDDEN __thread uint32_t *heap_line_numbers __attribute__((tls_model("initial-exec")));

/* Return this thread's line in a heap, or NULL. */
static inline struct ring_thread *heap_line_known(uint32_t id)
{
    const uint32_t *numbers = heap_line_numbers;
    uint32_t number = likely(numbers != NULL) ? load_relaxed(&numbers[id]) : 0;
    return likely(number != 0) ? &client.heap_lines[number - 1] : NULL;
}

#endif

/* Return the pending samples of a line. */
static inline struct ring_pending *heap_pending(const struct ring_thread *line)
{
    return &client.pending[RING_THREADS_MAX + (uint32_t)(line - client.heap_lines)];
}

/* Return the line; take a new one if there is none. Return NULL if none is free. */
struct ring_thread *heap_line_get(struct ring_thread *thread, uint32_t id);

#endif
