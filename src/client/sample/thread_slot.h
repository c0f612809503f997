/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each thread a slot (struct ring_thread) and a cell that points to it.
 *
 * A thread takes a slot at its first allocation. A later newcomer takes the slot over when it finds
 * that the thread has ended. So neither a pthread key, which may allocate, nor a hook of thread
 * creation is needed.
 *
 * If as many threads run as there are slots, further ones have none. The number of their calls is
 * counted as lost. Looking for a slot takes system calls, so few of these calls do it.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_THREAD_SLOT_H
#define HEAPPROFD_CLIENT_SAMPLE_THREAD_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/system.h"
#include "client/unwind/unwind.h"
#include "wire/ring.h"

/* Map the cells and the stack bounds. Return 0 or -ENOMEM. */
int thread_slot_init(void);

/* Return whether a thread without a slot should not look for one: a thread has looked a moment ago,
 * and found none. Each call lets one thread pass. */
static inline bool thread_slot_is_not_due(void)
{
    uint32_t *passes = &client.process->passes_without_slot, left = load_relaxed(passes);
    if (likely(left == 0))
        return false;
    store_relaxed(passes, left - 1); /* threads may lose each other's */
    return true;
}

/* Count a call of a thread without a slot as lost. */
static inline void thread_slot_lose_call(void)
{
    add_relaxed(&client.control->lost[RING_LOST_NO_THREAD_SLOT], 1);
}

/* The way of thread_slot_get() that always works. */
struct ring_thread *thread_slot_find(void);

/* Return this thread's slot; take one if it has none. If none is free, count that and return NULL.
 */
static inline struct ring_thread *thread_slot_get(void)
{
#ifdef HEAPPROFD_ATTACHED
    return thread_slot_find(); /* the cell may be that of a thread that has ended */
#else
    struct ring_thread *thread = load_relaxed(client_cell());
    return likely(thread != NULL) ? thread : thread_slot_find();
#endif
}

#ifdef HEAPPROFD_ATTACHED
/* The slot was found by the thread pointer. If its last owner had the same thread pointer and has
 * ended, begin this thread's account there. */
void thread_slot_check(struct ring_thread *thread);
#endif

/* A thread's passage through the slow path. While it is inside, its session does not change.
 * Passages nest, in signal handlers. */
struct thread_passage {
    struct ring_thread *thread; /* NULL: it has no slot */
    struct client_process *process;
    uint32_t was;                  /* the slot's `inside` to restore when it leaves */
    struct system_signals signals; /* blocked while the thread has no slot */
};

/* Return the value that the slot's `inside` gets when the caller, at `here`, leaves: 0 if a jump
 * left the function that set it. */
uint32_t thread_still_inside(const struct ring_thread *thread, uintptr_t here);

/* Enter as a thread without a slot, which is counted in client_process.newcomers. Its signals are
 * blocked until it has a slot: if a handler jumped out, the count would stay too high, and if one
 * allocated, it would begin the thread's account a second time. */
void thread_enter_as_newcomer(struct thread_passage *passage, uintptr_t here);

/* Enter again as a newcomer. The session changes, or has changed since the thread read its slot, so
 * the thread that changes it does not see this thread's `inside`. */
void thread_enter_anew(struct thread_passage *passage, uintptr_t here);

/* Mark the thread as inside, before it loads the state: a thread that changes the state then reads
 * the mark. If that thread makes a memory barrier in all threads, this one needs none. */
static inline void thread_mark_inside(const struct client_process *process,
                                      struct ring_thread *thread, uint32_t mark)
{
    if (likely(load_relaxed(&process->has_remote_barrier) != 0)) {
        store_relaxed(&thread->inside, mark);
        barrier_signal();
    } else {
        store_ordered(&thread->inside, mark);
    }
}

static inline __attribute__((always_inline)) void thread_enter(struct thread_passage *passage)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct ring_thread *thread = load_relaxed(client_cell());
    passage->thread = thread;
    passage->process = client.process;
    passage->was = 0;
    if (likely(thread != NULL)) {
        if (unlikely(thread->inside != 0))
            passage->was = thread_still_inside(thread, here);
        thread_mark_inside(passage->process, thread, (uint32_t)here | 1);
        if (unlikely(load_ordered(&passage->process->state) == CLIENT_CONNECTING) ||
            unlikely(load_relaxed(client_cell()) != thread))
            thread_enter_anew(passage, here);
    } else {
        thread_enter_as_newcomer(passage, here);
    }
}

/* Give a newcomer a slot, if one is free, and release signals. Call it again when the process has
 * joined its session. `here` is the frame that entered. */
void thread_settle(struct thread_passage *passage, uintptr_t here);

/* Leave as a newcomer. */
void thread_leave_as_newcomer(const struct thread_passage *passage);

static inline void thread_leave(const struct thread_passage *passage)
{
    if (likely(passage->thread != NULL))
        store_release(&passage->thread->inside, passage->was);
    else
        thread_leave_as_newcomer(passage);
}

/* Return the id of the slot's thread, or 0 if none runs. Makes one system call. */
uint32_t thread_slot_living(uint32_t number);

/* Return whether the caller is the only thread inside. The state must keep others out. */
bool thread_slot_none_inside(void);

/* Make every thread take a new slot, from the arena of the next session. */
void thread_slot_forget(void);

/* Return the unwinder's stack bounds of the slot's thread. */
struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread);

#endif
