/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that count pymalloc's, and end in its own. A program makes tens of millions of
 * objects a second. So a function counts the request first and ends in a jump to pymalloc's, as
 * malloc's hooks do. It finds its thread's counters through one cell, and a free tests one byte of
 * the live set's filter.
 *
 * pymalloc passes requests on to malloc in the middle of its functions. Reallocations of malloc's
 * blocks are malloc's: the thread's counters of malloc have changed. The other requests are those
 * for which no arena can be mapped. They are counted here already, so the preloaded client's hook
 * of mmap tells malloc not to count the next one.
 */
#include "client/heaps/python_count.h"

#include "client/heaps/heaps.h"
#include "client/heaps/python_call.h"
#include "client/sample/own_frames.h"

/* pymalloc may also call malloc for its own bookkeeping when it maps an arena. The smallest such
 * request is that for the first 16 entries of its list of arenas, of 48 bytes each. */
#define BOOKKEEPING_BYTES_MIN (UINT64_C(16) * 48)

/* What malloc's hooks have counted for this thread. */
struct malloc_count {
    const struct ring_thread *thread; /* NULL: the thread has not called malloc yet */
    uint64_t calls, bytes;
};

static inline struct malloc_count malloc_count(void)
{
    const struct ring_thread *thread = load_relaxed(client_cell());
    if (unlikely(thread == NULL))
        return (struct malloc_count){NULL, 0, 0};
    return (struct malloc_count){thread, load_relaxed(&thread->calls),
                                 load_relaxed(&thread->bytes_before) +
                                     load_relaxed(&thread->bytes_loaded) -
                                     load_relaxed(&thread->bytes_left)};
}

/* Return whether malloc has counted a request of pymalloc's size class, not only bookkeeping.
 * `old`: the block that was reallocated. */
static inline bool malloc_has_served(struct malloc_count before, const void *old)
{
    struct malloc_count now = malloc_count();
    if (likely(now.thread == before.thread && now.calls == before.calls))
        return false;
    if (before.thread == NULL || now.thread != before.thread)
        return old != NULL; /* a new thread: only its realloc of malloc's memory is likely */
    return now.bytes - before.bytes < BOOKKEEPING_BYTES_MIN;
}

/* --- hot --- */

static inline const struct pymalloc_functions *own(void)
{
    return python_count_own();
}

static inline const struct live_set *counted_set(void)
{
    return load_acquire(&python_count.live);
}

/* Count a request, and return whether that was all: no sample is due. The caller then ends in a
 * jump to pymalloc's function: nothing of ours is on the stack. */
static inline bool is_counted(size_t size)
{
    struct ring_thread *line = load_relaxed(&client_own_cell()->python);
    return likely(line != NULL) && client_take(line, size);
}

__attribute__((aligned(64))) void *python_count_malloc(void *context, size_t size)
{
    if (likely(size <= PYMALLOC_BYTES_MAX) && unlikely(!is_counted(size)))
        return entry_python_malloc(context, size);
    return own()->malloc(context, size);
}

void *python_count_calloc(void *context, size_t number, size_t size)
{
    size_t bytes;
    if (likely(!__builtin_mul_overflow(number, size, &bytes)) && bytes <= PYMALLOC_BYTES_MAX &&
        unlikely(!is_counted(bytes)))
        return entry_python_calloc(context, number, size);
    return own()->calloc(context, number, size);
}

/* Only afterwards it is known whether the block was malloc's. */
void *python_count_realloc(void *context, void *memory, size_t size)
{
    if (unlikely(live_set_has_near(counted_set(), (uintptr_t)memory)))
        return entry_python_realloc(context, memory, size);
    if (size - 1 >= PYMALLOC_BYTES_MAX)
        return own()->realloc(context, memory, size);
    if (PYTHON_CALLS_ARE_RECORDED)
        return entry_python_realloc(context, memory, size);
    own_frames_expect();
    struct malloc_count before = malloc_count();
    void *moved = own()->realloc(context, memory, size);
    if (unlikely(moved == NULL) || malloc_has_served(before, memory) || likely(is_counted(size)))
        return moved;
    return entry_python_allocated(moved, size);
}

static __attribute__((noinline)) void count_free_nearby(void *context, void *memory)
{
    if (memory != NULL && unlikely(live_set_near_might_hold(counted_set(), (uintptr_t)memory)))
        python_call_free(python_count.heap, memory);
    own()->free(context, memory);
}

__attribute__((aligned(64))) void python_count_free(void *context, void *memory)
{
    if (unlikely(live_set_has_near(counted_set(), (uintptr_t)memory)))
        count_free_nearby(context, memory);
    else
        own()->free(context, memory);
}

/* --- slow; called by entry_python.S --- */

static bool is_unprofiled(void)
{
    return load_acquire(&client.process->heap_states[python_count.heap]) == HEAP_IDLE &&
           !heaps_should_check();
}

static void *allocated(void *memory, size_t size, const struct unwind_registers *caller)
{
    if (is_unprofiled())
        python_count_unprofiled();
    else if (likely(memory != NULL) && size - 1 < PYMALLOC_BYTES_MAX)
        heap_report_allocation(python_count.heap, (uintptr_t)memory, size, caller);
    return memory;
}

/* Return `memory`, a block that pymalloc has made in this call. */
static void *end_allocated(struct python_call call, void *memory, size_t size,
                           const struct unwind_registers *caller)
{
    if (python_call_counts(&call))
        allocated(memory, size, caller);
    python_call_end(&call);
    return memory;
}

void *slow_python_malloc(void *context, size_t size, size_t unused,
                         const struct unwind_registers *caller)
{
    (void)unused;
    own_frames_expect();
    struct python_call call = python_call_begin(caller);
    return end_allocated(call, own()->malloc(context, size), size, caller);
}

void *slow_python_calloc(void *context, size_t number, size_t size,
                         const struct unwind_registers *caller)
{
    own_frames_expect();
    struct python_call call = python_call_begin(caller);
    return end_allocated(call, own()->calloc(context, number, size), number * size, caller);
}

void *slow_python_allocated(void *memory, size_t size, size_t unused,
                            const struct unwind_registers *caller)
{
    (void)unused;
    struct python_call call = python_call_begin(caller);
    return end_allocated(call, memory, size, caller);
}

static void *reallocate(void *context, void *memory, size_t size,
                        const struct unwind_registers *caller)
{
    bool freed = memory != NULL && live_set_might_hold(counted_set(), (uintptr_t)memory) &&
                 heap_report_free(python_count.heap, (uintptr_t)memory);
    struct malloc_count before = malloc_count();
    void *moved = own()->realloc(context, memory, size);
    if (moved == NULL) {
        if (freed)
            heap_report_unfree(python_count.heap, (uintptr_t)memory);
        return NULL;
    }
    if (malloc_has_served(before, memory) || (size - 1 < PYMALLOC_BYTES_MAX && is_counted(size)))
        return moved;
    return allocated(moved, size, caller);
}

/* Like slow_realloc() of malloc: the address leaves the live set before another thread can get it,
 * and returns if pymalloc fails. */
void *slow_python_realloc(void *context, void *memory, size_t size,
                          const struct unwind_registers *caller)
{
    own_frames_expect();
    struct python_call call = python_call_begin(caller);
    void *moved = python_call_counts(&call) ? reallocate(context, memory, size, caller)
                                            : own()->realloc(context, memory, size);
    python_call_end(&call);
    return moved;
}
