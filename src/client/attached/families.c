/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of libraries (hooks/families.h) in an attached client: the attacher has patched the
 * entries of their functions, so all calls are seen, those inside the library included. While such
 * a function runs, its thread passes: only the outermost call counts, and what it requests from
 * malloc does not count again.
 */
#include "client/attached/families.h"

#include <string.h>

#include "client/attached/hooks.h"
#include "client/extended.h"
#include "client/heaps/heaps.h"
#include "client/hooks/families.h"

#define HEAP_FIRST 2u /* after python.object */

/* Whether the heaps can have lines. */
static bool has_lines;

/* Threads that wanted to begin each heap; the first one does. */
static uint32_t beginners[FAMILIES_MAX];

HIDDEN struct extended_verdict family_call(unsigned number, const uint64_t *arguments,
                                           const struct unwind_registers *caller);

static uint32_t heap_state(uint32_t heap)
{
    return load_acquire(&client.process->heap_states[heap]);
}

/* Tell the daemon that nobody counts the heap. */
static void report_uncounted(const char *name)
{
    uint64_t words[RING_UNSEEN_BYTES / 8] = {0};
    memcpy(words, name, RING_UNSEEN_BYTES - 1);
    for (unsigned i = 0; i < RING_UNSEEN_BYTES / 8; i++)
        store_relaxed(&client.control->unseen_family[i], words[i]);
}

/* Begin the heap at this place. What other threads request at this moment may not count. */
static void families_begin(unsigned place)
{
    const char *name = heapprofd_attach_params.families.heaps[place];
    uint32_t id = HEAP_FIRST + place;
    struct AHeapInfo *heap = &heaps[id];
    if (add_ordered(&beginners[place], 1) != 0)
        return;
    memcpy(heap->name, name, sizeof(heap->name));
    heap->is_family = 1;
    heap->stage = HEAP_REGISTERED;
    if (has_lines)
        heap_begin(id);
    if (heaps_want(heap) && heap_state(id) == HEAP_IDLE)
        report_uncounted(name);
}

/* Families that come later need the lines, too: only one thread may map them. */
void attached_families_begin(void)
{
    has_lines = heaps_init() == 0;
    for (unsigned i = 0; i < FAMILIES_MAX && heapprofd_attach_params.families.heaps[i][0] != 0; i++)
        families_begin(i);
}

/* Return the heap of a function; 0: none, since its library was closed. */
static uint32_t heap_of(unsigned number)
{
    uint64_t heap = heapprofd_attach_params.families.families[number / FAMILY_FUNCTIONS].heap;
    return heap != 0 ? HEAP_FIRST + (uint32_t)heap - 1 : 0;
}

static uint64_t real_of(unsigned number)
{
    return load_relaxed(&heapprofd_attach_params.families.real[number]);
}

static const struct extended_row *families_row_of(unsigned number)
{
    uint64_t kind = heapprofd_attach_params.families.families[number / FAMILY_FUNCTIONS].kind;
    unsigned count;
    return &family_rows((enum family_kind)kind, &count)[number % FAMILY_FUNCTIONS].row;
}

static bool might_be_live(uint32_t heap, const void *block)
{
    return block != NULL && heap_state(heap) != HEAP_IDLE &&
           live_set_might_hold(&heaps[heap].live, (uintptr_t)block);
}

static bool note_free(uint32_t heap, const void *block)
{
    if (likely(!might_be_live(heap, block)))
        return false;
    add_relaxed(&heapprofd_attach_params.inside, 1);
    bool freed = heap_report_free(heap, (uintptr_t)block);
    sub_relaxed(&heapprofd_attach_params.inside, 1);
    return freed;
}

/* Exceptions may not pass through this code. Return the function to call in place of one that
 * throws. */
static unsigned callable(unsigned number, const struct extended_row *row)
{
    return row->nothrow == EXTENDED_FUNCTIONS
               ? number
               : number - number % FAMILY_FUNCTIONS + row->nothrow - EXTENDED_mi_malloc;
}

/* Call the function, which counts, while its thread passes. */
static uint64_t call_and_count(unsigned number, uint32_t heap, const uint64_t *arguments,
                               struct attached_thread *thread,
                               const struct unwind_registers *caller)
{
    const struct extended_row *row = families_row_of(number);
    size_t bytes = extended_requested_bytes(row, arguments);
    const void *block = extended_resized_block(row, arguments);
    bool freed = note_free(heap, block);
    uint64_t result = extended_call_at(real_of(callable(number, row)), arguments);
    pass_end(thread);
    const void *memory = extended_resulting_block(row, arguments, result, &bytes);
    if (likely(memory != NULL))
        heap_report_allocation(heap, (uintptr_t)memory, bytes, caller);
    else if (freed && bytes != 0 && row->kind != EXTENDED_RESIZE_OR_FREE)
        heap_report_unfree(heap, (uintptr_t)block);
    return result;
}

struct extended_verdict family_call(unsigned number, const uint64_t *arguments,
                                    const struct unwind_registers *caller)
{
    struct extended_verdict verdict = {.jump = real_of(number)};
    const struct extended_row *row = families_row_of(number);
    uint32_t heap = heap_of(number);
    if (row->kind == EXTENDED_RELEASE) {
        note_free(heap, (const void *)arguments[row->block]);
        return verdict;
    }
    if (row->kind == EXTENDED_DESTROY_HEAP) {
        if (heap_state(heap) != HEAP_IDLE)
            sample_lose(RING_LOST_FREE); /* its blocks stay live in the profile */
        return verdict;
    }
    struct hook_call call = hook_call_begin(caller, true);
    /* The library may have been opened after the session began. */
    if (heap != 0 && unlikely(load_relaxed(&beginners[heap - HEAP_FIRST]) == 0) &&
        client_state() == CLIENT_ACTIVE)
        families_begin(heap - HEAP_FIRST);
    if (call.thread != NULL && heap_state(heap) != HEAP_IDLE) {
        verdict.result = call_and_count(number, heap, arguments, call.thread, caller);
        /* A function that throws reports the failure itself. */
        if (verdict.result != 0 || row->nothrow == EXTENDED_FUNCTIONS)
            verdict.jump = 0;
    } else if (call.thread != NULL) {
        pass_end(call.thread);
    }
    sub_relaxed(&heapprofd_attach_params.inside, 1);
    return verdict;
}
