/*
 * Gives each thread a slot (struct ring_thread) and a cell that leads to it.
 *
 * Threads are not told of: a slot is taken at a thread's first allocation, and
 * taken back when a later newcomer finds that its thread is gone. No pthread
 * key (it may allocate) and no hook of thread creation is needed.
 */
#ifndef HEAPPROFD_CLIENT_THREAD_SLOT_H
#define HEAPPROFD_CLIENT_THREAD_SLOT_H

#include <stdint.h>

#include "client/unwind.h"
#include "wire/ring.h"

/* Maps the cells and the stack bounds; 0 or -ENOMEM. */
int thread_slot_init(void);

/* This thread's slot, a new one if it has none; NULL: none is to be had. */
struct ring_thread *thread_slot_get(void);

/* What the unwinder knows of the stack of the thread in this slot. */
struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread);

#endif
