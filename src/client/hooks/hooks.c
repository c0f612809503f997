/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the C allocation functions.
 *
 * Each hook is two functions. The exported one is the hot path. It jumps to the
 * real function or, with its arguments untouched, to entry.S, which saves the
 * caller's registers and calls the slow half. The slow half calls the real
 * function first and then counts the allocation.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>

#include "client/client.h"
#include "client/hooks/families.h"
#include "client/hooks/hook_entries.h"
#include "client/libc/libc.h"
#include "client/modules/module.h"
#include "client/probes.h"
#include "client/real_allocator.h"
#include "client/sample/sample.h"
#include "client/session.h"

/* Not in every libc's headers. */
void cfree(void *memory);
void free_sized(void *memory, size_t size);
void free_aligned_sized(void *memory, size_t alignment, size_t size);

/* --- hot --- */

EXPORT_HOT void *malloc(size_t size)
{
    if (likely(client_count(size)))
        return real.malloc(size);
    return entry_malloc(size);
}

EXPORT_HOT void *calloc(size_t count, size_t size)
{
    size_t total;
    if (likely(!__builtin_mul_overflow(count, size, &total) && client_count(total)))
        return real.calloc(count, size);
    return entry_calloc(count, size);
}

EXPORT_HOT void *realloc(void *memory, size_t size)
{
    struct ring_thread *thread = load_relaxed(client_cell());
    if (likely(thread != NULL) &&
        likely(!live_set_might_hold(&sample_live_set, (uintptr_t)memory)) &&
        likely(client_take(thread, size)))
        return real.realloc(memory, size);
    return entry_realloc(memory, size);
}

EXPORT void *reallocarray(void *memory, size_t count, size_t size)
{
    return entry_reallocarray(memory, count, size);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (likely(client_is_plain_alignment(alignment) && client_count(size)))
        return real.posix_memalign(memory, alignment, size);
    return entry_posix_memalign(memory, alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    /* Some allocators want a size that is a multiple of the alignment, as C does. */
    if (likely(client_is_plain_alignment(alignment) && (size & (alignment - 1)) == 0 &&
               client_count(size)))
        return real.aligned_alloc(alignment, size);
    return entry_aligned_alloc(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    if (likely(client_is_plain_alignment(alignment) && client_count(size)))
        return real.memalign(alignment, size);
    return entry_memalign(alignment, size);
}

EXPORT void *valloc(size_t size)
{
    return entry_valloc(size);
}

EXPORT void *pvalloc(size_t size)
{
    return entry_pvalloc(size);
}

EXPORT_HOT void free(void *memory)
{
    if (unlikely(live_set_has_near(&sample_live_set, (uintptr_t)memory))) {
        if (unlikely(real.free == NULL))
            real_resolve(); /* a constructor may call free before anything has called malloc */
        else
            sample_free_near(memory);
    }
    real.free(memory);
}

EXPORT void cfree(void *memory)
{
    real_resolve();
    sample_check_free(memory);
    real.cfree(memory);
}

EXPORT void free_sized(void *memory, size_t size)
{
    real_resolve();
    sample_check_free(memory);
    real.free_sized(memory, size);
}

EXPORT void free_aligned_sized(void *memory, size_t alignment, size_t size)
{
    real_resolve();
    sample_check_free(memory);
    real.free_aligned_sized(memory, alignment, size);
}

/* --- slow; called by entry.S --- */

/* Count the memory that a real function returned, and return it. */
static void *counted(void *memory, size_t size, const struct unwind_registers *caller)
{
    probes_keep_frame();
    sample_allocation(memory, size, caller);
    return memory;
}

HIDDEN void *slow_malloc(size_t size, size_t unused1, size_t unused2,
                         const struct unwind_registers *caller)
{
    (void)unused1;
    (void)unused2;
    real_resolve();
    return counted(real.malloc(size), size, caller);
}

HIDDEN void *slow_calloc(size_t count, size_t size, size_t unused,
                         const struct unwind_registers *caller)
{
    (void)unused;
    real_resolve();
    return counted(real.calloc(count, size), count * size, caller);
}

/* Remove the block from the live set before the real function can give its address to another
 * thread. If the real function fails, the block is still there: put it back. */
HIDDEN void *slow_realloc(void *memory, size_t size, size_t unused,
                          const struct unwind_registers *caller)
{
    (void)unused;
    probes_keep_frame();
    real_resolve();
    int freed = sample_free_for_realloc(memory);
    void *moved = real.realloc(memory, size);
    if (moved != NULL)
        sample_allocation(moved, size, caller);
    else if (freed && size != 0)
        sample_unfree(memory);
    return moved;
}

HIDDEN void *slow_reallocarray(void *memory, size_t count, size_t size,
                               const struct unwind_registers *caller)
{
    real_resolve();
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    /* glibc's own goes to realloc through the PLT, that is to us. */
    return slow_realloc(memory, total, 0, caller);
}

HIDDEN int slow_posix_memalign(void **memory, size_t alignment, size_t size,
                               const struct unwind_registers *caller)
{
    probes_keep_frame();
    real_resolve();
    int result = real.posix_memalign(memory, alignment, size);
    if (result == 0)
        sample_allocation(*memory, size, caller);
    return result;
}

HIDDEN void *slow_aligned_alloc(size_t alignment, size_t size, size_t unused,
                                const struct unwind_registers *caller)
{
    (void)unused;
    real_resolve();
    return counted(real.aligned_alloc(alignment, size), size, caller);
}

HIDDEN void *slow_memalign(size_t alignment, size_t size, size_t unused,
                           const struct unwind_registers *caller)
{
    (void)unused;
    real_resolve();
    return counted(real.memalign(alignment, size), size, caller);
}

HIDDEN void *slow_valloc(size_t size, size_t unused1, size_t unused2,
                         const struct unwind_registers *caller)
{
    (void)unused1;
    (void)unused2;
    real_resolve();
    return counted(real.valloc(size), size, caller);
}

HIDDEN void *slow_pvalloc(size_t size, size_t unused1, size_t unused2,
                          const struct unwind_registers *caller)
{
    (void)unused1;
    (void)unused2;
    real_resolve();
    return counted(real.pvalloc(size), size, caller);
}

/* --- changes of the loaded libraries --- */

/* Another library may be loaded at the same addresses at once. */
EXPORT int dlclose(void *handle)
{
    real_resolve();
    int result = real.dlclose(handle);
    int saved_errno = errno;
    module_check_unloaded(true);
    errno = saved_errno;
    return result;
}

/* A library opened with RTLD_DEEPBIND binds to libc's malloc, so its calls bypass the hooks. Tell
 * the daemon, because the totals are then partial. End in a jump to the real dlopen: it depends on
 * its caller (namespace, RUNPATH, $ORIGIN). */
EXPORT void *dlopen(const char *file, int flags)
{
    real_resolve();
    if ((flags & RTLD_DEEPBIND) != 0 && file != NULL)
        session_note_deepbind();
    if ((flags & RTLD_NOLOAD) == 0 && file != NULL)
        families_expect_library();
    void *(*open)(const char *, int) = real.dlopen;
    if (open == NULL)
        open = real_next("dlopen");
    return open(file, flags);
}

/* --- programs that do not allocate through the hooks before main --- */

/* Say hello before main if no first allocation has done so.
 *
 * If the executable has its own malloc, exported or not, none need reach the hooks, and the daemon
 * may attach to the process. glibc runs the constructors of this library before all others (it is
 * linked with initfirst), so that the daemon misses none of their allocations.
 *
 * musl's loader does not allocate through the hooks, so the first allocation might come from one of
 * several threads: those of the others are not counted during the hello. */
__attribute__((constructor(102))) static void join_before_main(void)
{
    session_join();
}
