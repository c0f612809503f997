/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks that patched entries jump to: the hot paths and slow halves of
 * src/client/hooks/hooks.c, on real functions that may end in hooked ones (hooks.h).
 */
#include "client/attached/hooks.h"
#include "client/attached/restrict.h"
#include "client/extended.h"
#include "client/heaps/python_count.h"
#include "client/hooks/families.h"
#include "client/hooks/hook_entries.h"
#include "client/modules/module.h"
#include "client/real_allocator.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"

/* The real function, by its name in enum attached_function. */
#define REAL(name, type, ...) ((type(*)(__VA_ARGS__))real_address(ATTACHED_##name))

#define MALLOC REAL(MALLOC, void *, size_t)
#define FREE REAL(FREE, void, void *)
#define CALLOC REAL(CALLOC, void *, size_t, size_t)
#define REALLOC REAL(REALLOC, void *, void *, size_t)
#define REALLOCARRAY REAL(REALLOCARRAY, void *, void *, size_t, size_t)
#define POSIX_MEMALIGN REAL(POSIX_MEMALIGN, int, void **, size_t, size_t)
#define ALIGNED_ALLOC REAL(ALIGNED_ALLOC, void *, size_t, size_t)
#define MEMALIGN REAL(MEMALIGN, void *, size_t, size_t)
#define VALLOC REAL(VALLOC, void *, size_t)
#define PVALLOC REAL(PVALLOC, void *, size_t)
#define CFREE REAL(CFREE, void, void *)
#define FREE_SIZED REAL(FREE_SIZED, void, void *, size_t)
#define FREE_ALIGNED_SIZED REAL(FREE_ALIGNED_SIZED, void, void *, size_t, size_t)
#define DLCLOSE REAL(DLCLOSE, int, void *)

/* --- slow halves --- */

/* If the thread pointer now belongs to another thread, begin that thread's account. */
static void check_owner(struct attached_thread *thread)
{
    struct ring_thread *slot = load_relaxed(&thread->slot);
    if (slot != NULL)
        thread_slot_check(slot);
}

static bool thread_passes(const struct attached_thread *thread)
{
    return load_relaxed(&thread->cell) == &thread->pass;
}

/* Return whether a jump left the function that began the pass: it was further in on this stack. */
static bool pass_is_abandoned(const struct attached_thread *thread, uintptr_t sp)
{
    return sp >= thread->passing;
}

struct hook_call hook_call_begin(const struct unwind_registers *caller, bool passing)
{
    add_relaxed(&heapprofd_attach_params.inside, 1);
    struct hook_call call = {.passing = passing};
    if (unlikely(client_state() == CLIENT_NEW || client_state() == CLIENT_CONNECTING))
        session_join();
    enum client_state state = (enum client_state)client_state();
    if (unlikely(state == CLIENT_NEW || state == CLIENT_CONNECTING))
        return call;
    struct attached_thread *thread = thread_table_own();
    if (thread != NULL && thread_passes(thread)) {
        if (!pass_is_abandoned(thread, caller->sp))
            return call;
        pass_end(thread);
    }
    if (thread != NULL)
        check_owner(thread);
    if (thread_slot_get() == NULL) /* counted as lost */
        return call;
    call.thread = thread_table_own();
    if (call.thread != NULL && passing)
        pass_begin(call.thread, caller->sp);
    return call;
}

void hook_call_end(struct hook_call call, const void *memory, size_t size,
                   const struct unwind_registers *caller)
{
    if (call.thread != NULL) {
        if (call.passing)
            pass_end(call.thread);
        sample_allocation(memory, size, caller);
    }
    sub_relaxed(&heapprofd_attach_params.inside, 1);
}

__attribute__((noinline)) void hook_note_free(const void *memory)
{
    add_relaxed(&heapprofd_attach_params.inside, 1);
    sample_free(memory);
    sub_relaxed(&heapprofd_attach_params.inside, 1);
}

HIDDEN void *slow_malloc(size_t size, size_t unused1, size_t unused2,
                         const struct unwind_registers *caller)
{
    (void)unused1;
    (void)unused2;
    struct hook_call call = hook_call_begin(caller, false);
    void *memory = MALLOC(size);
    hook_call_end(call, memory, size, caller);
    return memory;
}

/* Slow halves of functions that return memory. `bytes` is the size in terms of a, b and c. */
#define SLOW(name, function, bytes, type_a, ...)                                                   \
    HIDDEN void *slow_##name(type_a a, size_t b, size_t c, const struct unwind_registers *caller)  \
    {                                                                                              \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        struct hook_call call = hook_call_begin(caller, true);                                     \
        void *memory = function(__VA_ARGS__);                                                      \
        hook_call_end(call, memory, bytes, caller);                                                \
        return memory;                                                                             \
    }

SLOW(calloc, CALLOC, a *b, size_t, a, b)
SLOW(aligned_alloc, ALIGNED_ALLOC, b, size_t, a, b)
SLOW(memalign, MEMALIGN, b, size_t, a, b)
SLOW(valloc, VALLOC, a, size_t, a)
SLOW(pvalloc, PVALLOC, a, size_t, a)

HIDDEN int slow_posix_memalign(void **memory, size_t alignment, size_t size,
                               const struct unwind_registers *caller)
{
    struct hook_call call = hook_call_begin(caller, true);
    int result = POSIX_MEMALIGN(memory, alignment, size);
    hook_call_end(call, result == 0 ? *memory : NULL, size, caller);
    return result;
}

/* As in src/client/hooks/hooks.c: remove the address from the set before it can be reused. */
static int begin_realloc(struct hook_call call, const void *memory)
{
    return call.thread != NULL ? sample_free_for_realloc(memory) : 0;
}

static void end_realloc(int freed, const void *memory, const void *moved, size_t size)
{
    if (moved == NULL && freed && size != 0)
        sample_unfree(memory);
}

HIDDEN void *slow_realloc(void *memory, size_t size, size_t unused,
                          const struct unwind_registers *caller)
{
    (void)unused;
    struct hook_call call = hook_call_begin(caller, true);
    int freed = begin_realloc(call, memory);
    void *moved = REALLOC(memory, size);
    end_realloc(freed, memory, moved, size);
    hook_call_end(call, moved, size, caller);
    return moved;
}

HIDDEN void *slow_reallocarray(void *memory, size_t count, size_t size,
                               const struct unwind_registers *caller)
{
    struct hook_call call = hook_call_begin(caller, true);
    size_t total;
    bool overflows = __builtin_mul_overflow(count, size, &total);
    int freed = overflows ? 0 : begin_realloc(call, memory);
    void *moved = REALLOCARRAY(memory, count, size); /* sets errno itself on overflow */
    end_realloc(freed, memory, moved, total);
    hook_call_end(call, moved, total, caller);
    return moved;
}

/* --- hot --- */

static void *hook_malloc(size_t size)
{
    if (likely(client_count(size)))
        return MALLOC(size);
    return entry_malloc(size);
}

static void *hook_calloc(size_t number, size_t size)
{
    size_t total;
    struct attached_thread *thread;
    if (likely(!__builtin_mul_overflow(number, size, &total) &&
               (thread = hook_count(total)) != NULL))
        return PASS(thread, void *, CALLOC(number, size));
    return entry_calloc(number, size);
}

static void *hook_realloc(void *memory, size_t size)
{
    struct attached_thread *thread;
    if (likely(load_acquire(&thread_table) != NULL) &&
        likely(!live_set_might_hold(&sample_live_set, (uintptr_t)memory) &&
               (thread = hook_count(size)) != NULL))
        return PASS(thread, void *, REALLOC(memory, size));
    return entry_realloc(memory, size);
}

static int hook_posix_memalign(void **memory, size_t alignment, size_t size)
{
    struct attached_thread *thread;
    if (likely(client_is_plain_alignment(alignment) && (thread = hook_count(size)) != NULL))
        return PASS(thread, int, POSIX_MEMALIGN(memory, alignment, size));
    return entry_posix_memalign(memory, alignment, size);
}

static void *hook_aligned_alloc(size_t alignment, size_t size)
{
    struct attached_thread *thread;
    if (likely(client_is_plain_alignment(alignment) && (size & (alignment - 1)) == 0 &&
               (thread = hook_count(size)) != NULL))
        return PASS(thread, void *, ALIGNED_ALLOC(alignment, size));
    return entry_aligned_alloc(alignment, size);
}

static void *hook_memalign(size_t alignment, size_t size)
{
    struct attached_thread *thread;
    if (likely(client_is_plain_alignment(alignment) && (thread = hook_count(size)) != NULL))
        return PASS(thread, void *, MEMALIGN(alignment, size));
    return entry_memalign(alignment, size);
}

static void hook_free(void *memory)
{
    hook_check_free(memory);
    FREE(memory);
}

static void hook_cfree(void *memory)
{
    hook_check_free(memory);
    CFREE(memory);
}

static void hook_free_sized(void *memory, size_t size)
{
    hook_check_free(memory);
    FREE_SIZED(memory, size);
}

static void hook_free_aligned_sized(void *memory, size_t alignment, size_t size)
{
    hook_check_free(memory);
    FREE_ALIGNED_SIZED(memory, alignment, size);
}

/* Another library may be loaded at the same addresses at once. */
static int hook_dlclose(void *handle)
{
    add_relaxed(&heapprofd_attach_params.inside, 1);
    int result = DLCLOSE(handle);
    module_check_unloaded(true);
    sub_relaxed(&heapprofd_attach_params.inside, 1);
    return result;
}

#define HOOKED(name, hook) [ATTACHED_##name] = (uintptr_t)(hook)

#define HOOKED_CXX(form, symbol) [ATTACHED_CXX + form] = (uintptr_t)hook_##symbol,

#define HOOKED_EXTENDED(name, ...)                                                                 \
    [ATTACHED_EXTENDED + EXTENDED_##name] = (uintptr_t)extended_##name,

struct attached_params heapprofd_attach_params = {
    .magic = ATTACHED_MAGIC,
    .version = ATTACHED_VERSION,
    .bytes = sizeof(struct attached_params),
    .hooks = {HOOKED(MALLOC, hook_malloc), HOOKED(FREE, hook_free), HOOKED(CALLOC, hook_calloc),
              HOOKED(REALLOC, hook_realloc), HOOKED(REALLOCARRAY, entry_reallocarray),
              HOOKED(POSIX_MEMALIGN, hook_posix_memalign),
              HOOKED(ALIGNED_ALLOC, hook_aligned_alloc), HOOKED(MEMALIGN, hook_memalign),
              HOOKED(VALLOC, entry_valloc), HOOKED(PVALLOC, entry_pvalloc),
              HOOKED(CFREE, hook_cfree), HOOKED(FREE_SIZED, hook_free_sized),
              HOOKED(FREE_ALIGNED_SIZED, hook_free_aligned_sized), HOOKED(DLCLOSE, hook_dlclose),
              HOOKED(PRCTL, restrict_prctl), HOOKED(SYSCALL, attached_syscall),
              HOOK_CXX_NEWS(HOOKED_CXX) HOOK_CXX_DELETES(HOOKED_CXX)
                  ALLOCATOR_EXTENDED(HOOKED_EXTENDED)},
    .families = {.thunks = (uintptr_t)family_thunks},
    .python = {.hooks = {(uintptr_t)python_count_malloc, (uintptr_t)python_count_calloc,
                         (uintptr_t)python_count_realloc, (uintptr_t)python_count_free}},
};

/* The same block, for assembler. */
extern struct attached_params heapprofd_attach_params_here
    __attribute__((alias("heapprofd_attach_params"))) HIDDEN;
