/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Count pymalloc's allocations, by functions that replace its own in the interpreter's tables
 * (pymalloc_tables.h) while a session profiles the heap. The heap is registered like a program's
 * own, and its callbacks change the tables. An interpreter that the program opens later (dlopen) is
 * noticed by the first stack that has a frame of it. It may be closed at any time, so only threads
 * that are in it change its tables.
 *
 * A program makes tens of millions of objects a second. So a replacement counts the request first
 * and ends in a jump to pymalloc's function, as malloc's hooks do. It finds its thread's counters
 * through one cell, and a free tests one byte of the live set's filter.
 *
 * pymalloc passes requests on to malloc in the middle of its functions. Reallocations of malloc's
 * blocks are malloc's: the thread's counters of malloc have changed. The other requests are those
 * for which no arena can be mapped. They are counted here already, so the hook of mmap tells malloc
 * not to count the next one.
 */
#include "client/heaps/python_object.h"

#include <stdint.h>
#include <string.h>

#include "client/environment.h"
#include "client/heaps/heaps.h"
#include "client/interp/interpreter.h"
#include "client/sample/own_frames.h"
#include "client/sample/sample.h"
#include "client/sample/sampler.h"
#include "client/sample/thread_slot.h"

/* pymalloc may also call malloc for its own bookkeeping when it maps an arena. The smallest such
 * request is that for the first 16 entries of its list of arenas, of 48 bytes each. */
#define BOOKKEEPING_BYTES_MIN (UINT64_C(16) * 48)

static struct pymalloc_functions pymalloc;
static uint32_t heap_id;
static const struct live_set *live_set; /* of the heap */

/* --- whether malloc had the request --- */

/* The sizes of an arena: up to 3.9, and since. */
static bool is_arena(size_t length)
{
    return length == 256u << 10 || length == 1u << 20;
}

void python_object_note_failed_mapping(const void *address, size_t length, int fd)
{
    struct client_cell *cell = client_own_cell();
    struct ring_thread *thread = load_relaxed(&cell->thread);
    if (thread == NULL || load_relaxed(&cell->python) == NULL || address != NULL || fd != -1 ||
        !is_arena(length) || load_acquire(&client.process->heap_states[heap_id]) != HEAP_COUNTS)
        return;
    store_relaxed(&cell->next_is_python, 1);
    sampler_call_next(thread, &client.pending[thread - client.threads]);
}

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

/* Count a request, and return whether that was all: no sample is due. The caller then ends in a
 * jump to pymalloc's function: nothing of ours is on the stack. */
static inline bool is_counted(size_t size)
{
    struct ring_thread *line = load_relaxed(&client_own_cell()->python);
    return likely(line != NULL) && client_take(line, size);
}

static __attribute__((aligned(64))) void *count_malloc(void *context, size_t size)
{
    if (likely(size <= PYMALLOC_BYTES_MAX) && unlikely(!is_counted(size)))
        return entry_python_malloc(context, size);
    return pymalloc.malloc(context, size);
}

static void *count_calloc(void *context, size_t number, size_t size)
{
    size_t bytes;
    if (likely(!__builtin_mul_overflow(number, size, &bytes)) && bytes <= PYMALLOC_BYTES_MAX &&
        unlikely(!is_counted(bytes)))
        return entry_python_calloc(context, number, size);
    return pymalloc.calloc(context, number, size);
}

/* Only afterwards it is known whether the block was malloc's. */
static void *count_realloc(void *context, void *memory, size_t size)
{
    if (unlikely(live_set_has_near(live_set, (uintptr_t)memory)))
        return entry_python_realloc(context, memory, size);
    if (size - 1 >= PYMALLOC_BYTES_MAX)
        return pymalloc.realloc(context, memory, size);
    struct malloc_count before = malloc_count();
    void *moved = pymalloc.realloc(context, memory, size);
    if (unlikely(moved == NULL) || malloc_has_served(before, memory) || likely(is_counted(size)))
        return moved;
    return entry_python_allocated(moved, size);
}

static __attribute__((noinline)) void count_free_nearby(void *context, void *memory)
{
    if (memory != NULL && unlikely(live_set_might_hold(live_set, (uintptr_t)memory)))
        heap_report_free(heap_id, (uintptr_t)memory);
    pymalloc.free(context, memory);
}

static __attribute__((aligned(64))) void count_free(void *context, void *memory)
{
    if (unlikely(live_set_has_near(live_set, (uintptr_t)memory)))
        count_free_nearby(context, memory);
    else
        pymalloc.free(context, memory);
}

/* --- slow; called by entry_python.S --- */

static bool is_unprofiled(void)
{
    return load_acquire(&client.process->heap_states[heap_id]) == HEAP_IDLE &&
           !heaps_should_check();
}

static void leave_opened(void);

static void *allocated(void *memory, size_t size, const struct unwind_registers *caller)
{
    if (is_unprofiled())
        leave_opened();
    else if (likely(memory != NULL) && size - 1 < PYMALLOC_BYTES_MAX)
        heap_report_allocation(heap_id, (uintptr_t)memory, size, caller);
    return memory;
}

void *slow_python_malloc(void *context, size_t size, size_t unused,
                         const struct unwind_registers *caller)
{
    (void)unused;
    return allocated(pymalloc.malloc(context, size), size, caller);
}

void *slow_python_calloc(void *context, size_t number, size_t size,
                         const struct unwind_registers *caller)
{
    return allocated(pymalloc.calloc(context, number, size), number * size, caller);
}

void *slow_python_allocated(void *memory, size_t size, size_t unused,
                            const struct unwind_registers *caller)
{
    (void)unused;
    return allocated(memory, size, caller);
}

/* Like slow_realloc() of malloc: the address leaves the live set before another thread can get it,
 * and returns if pymalloc fails. */
void *slow_python_realloc(void *context, void *memory, size_t size,
                          const struct unwind_registers *caller)
{
    bool freed = memory != NULL && heap_report_free(heap_id, (uintptr_t)memory);
    struct malloc_count before = malloc_count();
    void *moved = pymalloc.realloc(context, memory, size);
    if (moved == NULL) {
        if (freed)
            heap_report_unfree(heap_id, (uintptr_t)memory);
        return NULL;
    }
    return malloc_has_served(before, memory) ? moved : allocated(moved, size, caller);
}

/* --- the heap --- */

static const struct pymalloc_functions counting = {count_malloc, count_calloc, count_realloc,
                                                   count_free};

static void begin(void *data, const AHeapProfileEnableCallbackInfo *info)
{
    (void)data;
    (void)info;
    own_frames_expect();
    pymalloc_tables_replace(&counting);
}

static void end(void *data, const AHeapProfileDisableCallbackInfo *info)
{
    (void)data;
    (void)info;
    pymalloc_tables_restore();
}

/* The interpreter prints its statistics of pymalloc only if its tables have pymalloc's functions.
 * If the environment asks for them, leave the tables alone. */
static bool statistics_are_wanted;

static void find_statistics_wanted(void)
{
    const char *value = environment_get("PYTHONMALLOCSTATS");
    statistics_are_wanted = value != NULL && value[0] != '\0';
}

/* Describe the heap. Return false if there is no room for it. */
static bool describe(void)
{
    struct AHeapInfo *heap = AHeapInfo_create(HEAPS_PYTHON_NAME);
    if (heap == NULL)
        return false;
    heap->is_python = 1;
    live_set = &heap->live;
    heap_id = (uint32_t)(heap - heaps);
    return true;
}

/* After the constructors that find malloc's functions (101, 102): registering may join a session.
 */
__attribute__((constructor(103))) static void register_at_start(void)
{
    find_statistics_wanted();
    if (!pymalloc_tables_find(&pymalloc) || statistics_are_wanted || !describe())
        return;
    AHeapInfo_setEnabledCallback(&heaps[heap_id], begin, NULL);
    AHeapInfo_setDisabledCallback(&heaps[heap_id], end, NULL);
    AHeapProfile_registerHeap(&heaps[heap_id]);
}

/* --- an interpreter that the program opens later --- */

static const struct module *opened; /* the interpreter's; NULL: none */

/* Replace the tables, in a thread that is in the interpreter, when a session wants the heap. */
static void take_opened(const struct interpreter *found)
{
    if (opened != found->module) {
        struct pymalloc_functions functions;
        memcpy(&functions, found->small_objects, sizeof(functions));
        if (!pymalloc_tables_take(found->module, &functions))
            return;
        pymalloc = functions;
    }
    if (opened == NULL && !describe())
        return;
    store_release(&opened, found->module);
    if (heaps_want(&heaps[heap_id])) {
        own_frames_expect();
        pymalloc_tables_replace(&counting);
    }
    /* The thread is in the client now. It registers the heap when it leaves. */
    store_release(&client.process->heaps_callbacks_due, 1);
}

void interpreter_noticed(const struct interpreter *found)
{
    static uint32_t busy;
    uint32_t nobody = 0;
    bool is_of_start = heap_id != 0 && load_acquire(&opened) == NULL;
    if (found->small_objects[0] == 0 || is_of_start || statistics_are_wanted ||
        module_is_permanent(found->module) || !cas_acquire(&busy, &nobody, 1))
        return;
    take_opened(found);
    store_release(&busy, 0);
}

void python_object_register_noticed(void)
{
    if (unlikely(load_acquire(&opened) != NULL) &&
        load_acquire(&heaps[heap_id].stage) == HEAP_DESCRIBED)
        AHeapProfile_registerHeap(&heaps[heap_id]);
}

/* No session wants the heap any more. Restore the tables from the thread that has called through
 * them: the interpreter cannot be closed meanwhile. */
static __attribute__((noinline)) void leave_opened(void)
{
    if (load_acquire(&opened) != NULL && client_state() != CLIENT_ACTIVE)
        pymalloc_tables_restore();
}
