/* SPDX-License-Identifier: Apache-2.0 */
/* Prepare for a time without system calls. */
#include "client/restriction.h"

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "client/modules/module.h"
#include "client/sample/thread_slot.h"
#include "client/unwind/unwind_stack.h"

/* How much of the unused stack is checked in advance, and in which steps. */
#define CHECKED_STACK_BYTES (8u << 20)
#define CHECKED_STEP_BYTES (64u << 10)

void restriction_prepare(void)
{
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = client_state() == CLIENT_ACTIVE ? thread_slot_get() : NULL;
    if (thread != NULL) {
        struct unwind_stack stack = {.bounds = thread_slot_bounds(thread)};
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);
        size_t depth = 0;
        do {
            unwind_stack_open(&stack, here - depth, false);
            depth += CHECKED_STEP_BYTES;
        } while (stack.high != 0 && depth <= CHECKED_STACK_BYTES && depth < here);
        module_keep_executable_path();
#ifndef HEAPPROFD_ATTACHED /* which makes no call from this word on, and has to leave first */
        store_relaxed(&client.control->restricted, 1);
#endif
    }
    thread_leave(&passage);
}
