/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each thread a slot (struct ring_thread) and a cell that leads to it.
 *
 * Threads are not told of: a slot is taken at a thread's first allocation, and
 * taken back when a later newcomer finds that its thread is gone. No pthread
 * key (it may allocate) and no hook of thread creation is needed.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_THREAD_SLOT_H
#define HEAPPROFD_CLIENT_SAMPLE_THREAD_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/system.h"
#include "client/unwind/unwind.h"
#include "wire/ring.h"

/* Maps the cells and the stack bounds; 0 or -ENOMEM. */
int thread_slot_init(void);

/* This thread's slot, a new one if it has none; NULL: none is to be had, which is counted. */
struct ring_thread *thread_slot_get(void);

#ifdef HEAPPROFD_ATTACHED
/* Whether the slot that was found by this thread's pointer is that of a thread that had the
 * same one and is gone: then this thread's account begins there. */
void thread_slot_check(struct ring_thread *thread);
#endif

/* A thread on its way through the slow half: while it is inside, the session does not change
 * under it. Nests (signal handlers). */
struct thread_passage {
    struct ring_thread *thread; /* NULL: it has no slot */
    struct client_live *live;
    uint32_t was;
    struct system_signals signals; /* held as long as it has none */
};

/* What the slot's word is to be when the caller at `here` has passed: 0 where whoever set it
 * was left by a jump. */
uint32_t thread_still_inside(const struct ring_thread *thread, uintptr_t here);

/* Enter as a newcomer, which is seen whatever the ring, until there is a slot to be had. Signals
 * are held meanwhile: a handler's jump would leave a newcomer that nobody takes back, and a
 * handler's allocation would open the same account. */
void thread_enter_as_newcomer(struct thread_passage *passage, uintptr_t here);

/* The session changes, or has changed between the look at the slot and the word in it: nobody will
 * look there. The thread goes on as a newcomer. */
void thread_enter_anew(struct thread_passage *passage, uintptr_t here);

static inline __attribute__((always_inline)) struct thread_passage thread_enter(void)
{
    struct thread_passage passage = {.thread = load_relaxed(client_cell()), .live = client.live};
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    /* Ordered before the look at the state that follows: whoever changes that looks here then. */
    if (likely(passage.thread != NULL)) {
        passage.was = passage.thread->inside;
        if (unlikely(passage.was != 0))
            passage.was = thread_still_inside(passage.thread, here);
        store_ordered(&passage.thread->inside, (uint32_t)here | 1);
        if (unlikely(load_acquire(&passage.live->state) == CLIENT_CONNECTING) ||
            unlikely(load_relaxed(client_cell()) != passage.thread))
            thread_enter_anew(&passage, here);
    } else {
        thread_enter_as_newcomer(&passage, here);
    }
    return passage;
}

/* Give a newcomer its slot, if it can have one, and release signals. Call it again when the process
 * has taken up its session. here: the frame that entered. */
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

/* The id of the slot's thread; 0: there is none, or it has ended. One system call. */
uint32_t thread_slot_living(uint32_t number);

/* Whether no thread but the caller, which is inside, is inside. The state must keep others out. */
bool thread_slot_none_inside(void);

/* Every thread is to take a new slot, of what will then be the arena. */
void thread_slot_forget(void);

/* What the unwinder knows of the stack of the thread in this slot. */
struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread);

#endif
