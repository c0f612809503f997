/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Count a call of a family's function in the family's heap, and make it.
 *
 * A library may call its own functions through hooked words, too (calloc ends in malloc). So the
 * thread's cell has the stack pointer of the call that it is in, and only the outermost call
 * counts. No exception may leave a call, which would keep the mark: for a function that throws, its
 * sibling that returns NULL is called. If that finds no memory, the hook ends in a jump to the
 * function itself, which reports the failure.
 */
#include "client/client.h"
#include "client/extended.h"
#include "client/heaps/heaps.h"
#include "client/hooks/families.h"
#include "client/libc/libc.h"
#include "client/sample/own_frames.h"
#include "client/sample/sample.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"

struct family_function family_functions[FAMILIES_MAX * FAMILY_FUNCTIONS];

HIDDEN struct extended_verdict family_call(unsigned number, const uint64_t *arguments,
                                           const struct unwind_registers *caller);

static inline struct extended_verdict jump_to(uint64_t real)
{
    return (struct extended_verdict){.jump = real};
}

static inline uint32_t heap_state(uint32_t heap)
{
    return load_acquire(&client.process->heap_states[heap]);
}

/* The heap's set is there as soon as its state is not idle. */
static inline bool might_be_live(uint32_t heap, uint32_t state, const void *block)
{
    return block != NULL && state != HEAP_IDLE &&
           unlikely(live_set_might_hold(&heaps[heap].live, (uintptr_t)block));
}

/* Return this thread's cell. NULL: it has none, because no slot was free, which is counted. */
static struct client_cell *find_cell(void)
{
    struct client_cell *cell = client_own_cell();
    if (likely(cell != &client_no_slot))
        return cell;
    struct thread_passage passage;
    int saved_errno = errno;
    session_join_or_tick();
    thread_enter(&passage);
    thread_slot_get();
    thread_leave(&passage);
    errno = saved_errno;
    cell = client_own_cell();
    return cell != &client_no_slot ? cell : NULL;
}

/* Count a block, which the caller has now. */
static inline void count(uint32_t heap, const void *memory, size_t bytes,
                         const struct unwind_registers *caller)
{
    struct ring_thread *line = heap_line_known(heap);
    uint32_t state = heap_state(heap);
    if (likely(state == HEAP_COUNTS && line != NULL) && !might_be_live(heap, state, memory) &&
        likely(client_take(line, bytes)))
        return;
    heap_report_allocation(heap, (uintptr_t)memory, bytes, caller);
}

/* Return the address to call: that of its sibling for a function that throws, 0 if it has none. */
static uint64_t callable(unsigned number)
{
    unsigned nothrow = family_functions[number].row->nothrow;
    if (nothrow != EXTENDED_FUNCTIONS)
        number += nothrow - EXTENDED_mi_malloc - number % FAMILY_FUNCTIONS;
    return load_relaxed(&family_functions[number].real);
}

static uint64_t call_and_count(unsigned number, uint64_t real, const uint64_t *arguments,
                               struct client_cell *cell, const struct unwind_registers *caller)
{
    const struct family_function *function = &family_functions[number];
    const struct extended_row *row = function->row;
    uint64_t called = callable(number);
    uint32_t heap = function->heap;
    size_t bytes = extended_requested_bytes(row, arguments);
    const void *block = extended_resized_block(row, arguments);
    /* Remove the block from the live set before another thread can get its address. */
    bool freed =
        might_be_live(heap, heap_state(heap), block) && heap_report_free(heap, (uintptr_t)block);
    own_frames_expect();
    if (likely(called != 0))
        store_relaxed(&cell->family, caller->sp);
    barrier_signal();
    uint64_t result = extended_call_at(called != 0 ? called : real, arguments);
    barrier_signal();
    store_relaxed(&cell->family, 0);
    const void *memory = extended_resulting_block(row, arguments, result, &bytes);
    if (likely(memory != NULL))
        count(heap, memory, bytes, caller);
    else if (freed && bytes != 0 && row->kind != EXTENDED_RESIZE_OR_FREE)
        heap_report_unfree(heap, (uintptr_t)block);
    return result;
}

struct extended_verdict family_call(unsigned number, const uint64_t *arguments,
                                    const struct unwind_registers *caller)
{
    const struct family_function *function = &family_functions[number];
    uint64_t real = load_relaxed(&function->real);
    uint32_t heap = function->heap;
    uint32_t state = heap_state(heap);
    if (unlikely(real == 0) || (state == HEAP_IDLE && likely(!heaps_should_check())))
        return jump_to(real);
    const struct extended_row *row = function->row;
    if (row->kind == EXTENDED_RELEASE) {
        const void *block = (const void *)arguments[row->block];
        if (might_be_live(heap, state, block))
            heap_report_free(heap, (uintptr_t)block);
        return jump_to(real);
    }
    if (row->kind == EXTENDED_DESTROY_HEAP) {
        /* Its blocks stay live in the profile. */
        sample_lose(RING_LOST_FREE);
        return jump_to(real);
    }
    struct client_cell *cell = find_cell();
    if (unlikely(cell == NULL) || caller->sp < load_relaxed(&cell->family))
        return jump_to(real);
    struct extended_verdict verdict = {.jump = real};
    verdict.result = call_and_count(number, real, arguments, cell, caller);
    if (likely(verdict.result != 0) || row->nothrow == EXTENDED_FUNCTIONS)
        verdict.jump = 0;
    return verdict;
}
