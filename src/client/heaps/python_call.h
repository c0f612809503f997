/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of pymalloc from the slow half of a function that counts it. An attached client records
 * it: the attacher must know that a thread will return into the client, and a stack that passes
 * through the client must be followed to the caller, because its code has no unwind information.
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_PYTHON_CALL_H
#define HEAPPROFD_CLIENT_HEAPS_PYTHON_CALL_H

#include "client/heaps/heaps.h"

#ifdef HEAPPROFD_ATTACHED

#include "client/attached/hooks.h"

#define PYTHON_CALLS_ARE_RECORDED true

struct python_call {
    struct attached_thread *thread; /* NULL: not counted */
    const void *outer;              /* the call that this one interrupted */
};

static inline struct python_call python_call_begin(const struct unwind_registers *caller)
{
    struct python_call call = {.thread = hook_call_begin(caller, false).thread};
    if (likely(call.thread != NULL)) {
        call.outer = load_relaxed(&call.thread->hook_caller);
        store_relaxed(&call.thread->hook_caller, caller);
        barrier_signal();
    }
    return call;
}

static inline bool python_call_counts(const struct python_call *call)
{
    return likely(call->thread != NULL);
}

static inline void python_call_end(const struct python_call *call)
{
    barrier_signal();
    if (likely(call->thread != NULL))
        store_relaxed(&call->thread->hook_caller, call->outer);
    sub_relaxed(&heapprofd_attach_params.inside, 1);
}

static inline void python_call_free(uint32_t heap, const void *memory)
{
    add_relaxed(&heapprofd_attach_params.inside, 1);
    heap_report_free(heap, (uintptr_t)memory);
    sub_relaxed(&heapprofd_attach_params.inside, 1);
}

#else

#define PYTHON_CALLS_ARE_RECORDED false

struct python_call {
};

static inline struct python_call python_call_begin(const struct unwind_registers *caller)
{
    (void)caller;
    return (struct python_call){};
}

static inline bool python_call_counts(const struct python_call *call)
{
    (void)call;
    return true;
}

static inline void python_call_end(const struct python_call *call)
{
    (void)call;
}

static inline void python_call_free(uint32_t heap, const void *memory)
{
    heap_report_free(heap, (uintptr_t)memory);
}

#endif

#endif
