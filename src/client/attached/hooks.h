/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the hooks of C and C++: the real functions, counting, and the pass.
 *
 * A hook is patched into the real function's entry, so a real function may call a hooked one
 * (realloc(NULL) calls malloc). A preloaded hook only sees calls between objects. While a real
 * function other than malloc and free runs, its thread passes: the thread's cell points to a slot
 * that does not count.
 *
 * Each call that will return into this code is recorded, in its thread's entry (it passes) or in
 * the counter `inside`. So the attacher can tell when no thread is left in here.
 */
#ifndef HEAPPROFD_CLIENT_ATTACHED_HOOKS_H
#define HEAPPROFD_CLIENT_ATTACHED_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/arch/registers.h"
#include "client/attached.h"
#include "client/client.h"
#include "client/sample/sample.h"
#include "client/thread_table.h"

/* Bytes that a thread may allocate inside one real function before it checks whether a jump has
 * left that function. */
#define PASS_BYTES (UINT64_C(1) << 20)

/* Return the address of a real function, by enum attached_function. */
static inline uint64_t real_address(unsigned function)
{
    return load_relaxed(&heapprofd_attach_params.real[function]);
}

/* `sp` is that of the hook's caller after the hook's return. */
static inline void pass_begin(struct attached_thread *thread, uintptr_t sp)
{
    thread->passing = sp;
    thread->pass.bytes_left = PASS_BYTES;
    store_relaxed(&thread->cell, &thread->pass);
    barrier_signal();
}

static inline void pass_end(struct attached_thread *thread)
{
    barrier_signal();
    store_relaxed(&thread->cell, load_relaxed(&thread->slot));
}

/* Call a real function while its thread passes. For use in the hook itself. */
#define PASS(thread, type, call)                                                                   \
    ({                                                                                             \
        pass_begin(thread, (uintptr_t)__builtin_dwarf_cfa());                                      \
        type pass_result = (call);                                                                 \
        pass_end(thread);                                                                          \
        pass_result;                                                                               \
    })

/* Like client_count(). Return the thread's entry if nothing more is due; NULL: take the slow half.
 */
static inline __attribute__((always_inline)) struct attached_thread *hook_count(size_t size)
{
    struct attached_thread *thread = thread_table_own();
    if (unlikely(thread == NULL))
        return NULL;
    struct ring_thread *slot = load_relaxed(&thread->cell);
    if (unlikely(slot == NULL))
        return NULL;
    return likely(slot != &thread->pass) && client_take(slot, size) ? thread : NULL;
}

/* A call of a slow half, from before the real function until after it. */
struct hook_call {
    struct attached_thread *thread; /* NULL: not counted */
    bool passing;
};

struct hook_call hook_call_begin(const struct unwind_registers *caller, bool passing) HIDDEN;
void hook_call_end(struct hook_call call, const void *memory, size_t size,
                   const struct unwind_registers *caller) HIDDEN;

/* Record a free that may be of a sampled allocation. */
void hook_note_free(const void *memory) HIDDEN;

static inline void hook_check_free(const void *memory)
{
    /* Without the table, the live set may not be mapped either. */
    if (likely(load_acquire(&thread_table) != NULL) &&
        unlikely(live_set_might_hold(&sample_live_set, (uintptr_t)memory)) && memory != NULL)
        hook_note_free(memory);
}

/* clang-format off */
/* The hooks of operator new and delete, by enum cxx_function. */
#define HOOK_CXX_NEWS(form)                                                                        \
    form(CXX_NEW, _Znwm)                                                                           \
    form(CXX_NEW_ARRAY, _Znam)                                                                     \
    form(CXX_NEW_NOTHROW, _ZnwmRKSt9nothrow_t)                                                     \
    form(CXX_NEW_ARRAY_NOTHROW, _ZnamRKSt9nothrow_t)                                               \
    form(CXX_NEW_ALIGNED, _ZnwmSt11align_val_t)                                                    \
    form(CXX_NEW_ARRAY_ALIGNED, _ZnamSt11align_val_t)                                              \
    form(CXX_NEW_ALIGNED_NOTHROW, _ZnwmSt11align_val_tRKSt9nothrow_t)                              \
    form(CXX_NEW_ARRAY_ALIGNED_NOTHROW, _ZnamSt11align_val_tRKSt9nothrow_t)

#define HOOK_CXX_DELETES(form)                                                                     \
    form(CXX_DELETE, _ZdlPv)                                                                       \
    form(CXX_DELETE_ARRAY, _ZdaPv)                                                                 \
    form(CXX_DELETE_SIZED, _ZdlPvm)                                                                \
    form(CXX_DELETE_ARRAY_SIZED, _ZdaPvm)                                                          \
    form(CXX_DELETE_NOTHROW, _ZdlPvRKSt9nothrow_t)                                                 \
    form(CXX_DELETE_ARRAY_NOTHROW, _ZdaPvRKSt9nothrow_t)                                           \
    form(CXX_DELETE_ALIGNED, _ZdlPvSt11align_val_t)                                                \
    form(CXX_DELETE_ARRAY_ALIGNED, _ZdaPvSt11align_val_t)                                          \
    form(CXX_DELETE_SIZED_ALIGNED, _ZdlPvmSt11align_val_t)                                         \
    form(CXX_DELETE_ARRAY_SIZED_ALIGNED, _ZdaPvmSt11align_val_t)                                   \
    form(CXX_DELETE_ALIGNED_NOTHROW, _ZdlPvSt11align_val_tRKSt9nothrow_t)                          \
    form(CXX_DELETE_ARRAY_ALIGNED_NOTHROW, _ZdaPvSt11align_val_tRKSt9nothrow_t)

#define HOOK_DECLARE_NEW(form, symbol)                                                             \
    HIDDEN void *hook_##symbol(size_t size, uintptr_t b, uintptr_t c);
#define HOOK_DECLARE_DELETE(form, symbol)                                                          \
    HIDDEN void hook_##symbol(void *memory, uintptr_t b, uintptr_t c);
HOOK_CXX_NEWS(HOOK_DECLARE_NEW)
HOOK_CXX_DELETES(HOOK_DECLARE_DELETE)
/* clang-format on */

#endif
