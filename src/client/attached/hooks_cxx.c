/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of operator new and delete for allocators that have their own (jemalloc, tcmalloc,
 * mimalloc).
 *
 * No exception may pass through this code, which has no unwind information. So the throwing forms
 * call their nothrow siblings. If a sibling finds no memory, the hook jumps to the real throwing
 * form, with none of our frames on the stack. It does so, too, if the call does not count: it may
 * come from the sibling itself, which in libstdc++ calls the throwing form.
 *
 * All hooks take three arguments, as many as the longest form: the ABI passes integer arguments
 * alike, however many there are.
 */
#include "client/attached/hooks.h"
#include "client/real_allocator.h"

/* Stands for std::nothrow: nobody reads it. */
static const char nothrow_tag;

static inline void *call_new(enum cxx_function form, size_t size, uintptr_t b, uintptr_t c)
{
    return ((void *(*)(size_t, uintptr_t, uintptr_t))real_address(ATTACHED_CXX + form))(size, b, c);
}

static inline void call_delete(enum cxx_function form, void *memory, uintptr_t b, uintptr_t c)
{
    ((void (*)(void *, uintptr_t, uintptr_t))real_address(ATTACHED_CXX + form))(memory, b, c);
}

static inline void *call_nothrow(enum cxx_function form, size_t size, uintptr_t b)
{
    uintptr_t tag = (uintptr_t)&nothrow_tag;
    bool aligned = form == CXX_NEW_ALIGNED_NOTHROW || form == CXX_NEW_ARRAY_ALIGNED_NOTHROW;
    return aligned ? call_new(form, size, b, tag) : call_new(form, size, tag, 0);
}

#define PARAMETERS size_t size, uintptr_t b, uintptr_t c

/* A throwing form. or_throw_ (arch/<cpu>/entry_throw.S) enters the slow half, and jumps to throw_
 * if that returns NULL. */
#define THROWING(symbol, form, sibling)                                                            \
    HIDDEN void *or_throw_##symbol(PARAMETERS);                                                    \
    HIDDEN void *throw_##symbol(PARAMETERS);                                                       \
    HIDDEN void *slow_##symbol(PARAMETERS, const struct unwind_registers *caller);                 \
    HIDDEN void *throw_##symbol(PARAMETERS)                                                        \
    {                                                                                              \
        return call_new(form, size, b, c);                                                         \
    }                                                                                              \
    HIDDEN void *slow_##symbol(PARAMETERS, const struct unwind_registers *caller)                  \
    {                                                                                              \
        (void)c;                                                                                   \
        struct hook_call call = hook_call_begin(caller, true);                                     \
        void *memory = call.thread != NULL ? call_nothrow(sibling, size, b) : NULL;                \
        hook_call_end(call, memory, size, caller);                                                 \
        return memory;                                                                             \
    }                                                                                              \
    HIDDEN void *hook_##symbol(PARAMETERS)                                                         \
    {                                                                                              \
        struct attached_thread *thread = hook_count(size);                                         \
        if (unlikely(thread == NULL))                                                              \
            return or_throw_##symbol(size, b, c);                                                  \
        void *memory = PASS(thread, void *, call_nothrow(sibling, size, b));                       \
        return likely(memory != NULL) ? memory : throw_##symbol(size, b, c);                       \
    }

/* A form that returns NULL instead of throwing. */
#define NOTHROW(symbol, form)                                                                      \
    HIDDEN void *entry_##symbol(PARAMETERS);                                                       \
    HIDDEN void *slow_##symbol(PARAMETERS, const struct unwind_registers *caller);                 \
    HIDDEN void *slow_##symbol(PARAMETERS, const struct unwind_registers *caller)                  \
    {                                                                                              \
        struct hook_call call = hook_call_begin(caller, true);                                     \
        void *memory = call_new(form, size, b, c);                                                 \
        hook_call_end(call, memory, size, caller);                                                 \
        return memory;                                                                             \
    }                                                                                              \
    HIDDEN void *hook_##symbol(PARAMETERS)                                                         \
    {                                                                                              \
        struct attached_thread *thread = hook_count(size);                                         \
        if (unlikely(thread == NULL))                                                              \
            return entry_##symbol(size, b, c);                                                     \
        return PASS(thread, void *, call_new(form, size, b, c));                                   \
    }

#define RELEASE(symbol, form)                                                                      \
    HIDDEN void hook_##symbol(void *memory, uintptr_t b, uintptr_t c)                              \
    {                                                                                              \
        hook_check_free(memory);                                                                   \
        call_delete(form, memory, b, c);                                                           \
    }

THROWING(_Znwm, CXX_NEW, CXX_NEW_NOTHROW)
THROWING(_Znam, CXX_NEW_ARRAY, CXX_NEW_ARRAY_NOTHROW)
THROWING(_ZnwmSt11align_val_t, CXX_NEW_ALIGNED, CXX_NEW_ALIGNED_NOTHROW)
THROWING(_ZnamSt11align_val_t, CXX_NEW_ARRAY_ALIGNED, CXX_NEW_ARRAY_ALIGNED_NOTHROW)
NOTHROW(_ZnwmRKSt9nothrow_t, CXX_NEW_NOTHROW)
NOTHROW(_ZnamRKSt9nothrow_t, CXX_NEW_ARRAY_NOTHROW)
NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, CXX_NEW_ALIGNED_NOTHROW)
NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, CXX_NEW_ARRAY_ALIGNED_NOTHROW)
RELEASE(_ZdlPv, CXX_DELETE)
RELEASE(_ZdaPv, CXX_DELETE_ARRAY)
RELEASE(_ZdlPvm, CXX_DELETE_SIZED)
RELEASE(_ZdaPvm, CXX_DELETE_ARRAY_SIZED)
RELEASE(_ZdlPvRKSt9nothrow_t, CXX_DELETE_NOTHROW)
RELEASE(_ZdaPvRKSt9nothrow_t, CXX_DELETE_ARRAY_NOTHROW)
RELEASE(_ZdlPvSt11align_val_t, CXX_DELETE_ALIGNED)
RELEASE(_ZdaPvSt11align_val_t, CXX_DELETE_ARRAY_ALIGNED)
RELEASE(_ZdlPvmSt11align_val_t, CXX_DELETE_SIZED_ALIGNED)
RELEASE(_ZdaPvmSt11align_val_t, CXX_DELETE_ARRAY_SIZED_ALIGNED)
RELEASE(_ZdlPvSt11align_val_tRKSt9nothrow_t, CXX_DELETE_ALIGNED_NOTHROW)
RELEASE(_ZdaPvSt11align_val_tRKSt9nothrow_t, CXX_DELETE_ARRAY_ALIGNED_NOTHROW)
