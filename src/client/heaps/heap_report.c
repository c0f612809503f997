/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions by which programs report allocations and frees of their own heaps: the hot halves,
 * and those that arch/<cpu>/entry_report.S calls. heap_samples.c has the slow halves,
 * sample/heap_states.h explains a heap's state.
 */
#include <stddef.h>

#include "client/client.h"
#include "client/forward.h"
#include "client/heaps/heaps.h"
#include "wire/record.h"

HIDDEN bool entry_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                                    const char *type);
HIDDEN bool entry_report_sample(uint32_t id, uint64_t allocation, uint64_t size, const char *type);
HIDDEN bool slow_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                                   const char *type, const struct unwind_registers *caller);
HIDDEN bool slow_report_sample(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                               const struct unwind_registers *caller);

/* --- hot --- */

static inline uint32_t heap_state(uint32_t id)
{
    /* Acquire: a heap's set and lines were made before its state was set. */
    return likely(id < RING_HEAPS_MAX) ? load_acquire(&client.process->heap_states[id])
                                       : (uint32_t)HEAP_IDLE;
}

/* Not inlined: the caller, which seldom needs it, would save registers for it each time. */
static __attribute__((noinline)) bool near_might_hold(uint32_t id, uint64_t allocation)
{
    return live_set_near_might_hold(&heaps[id].live, allocation);
}

/* Return whether the allocation is certainly not live. */
static inline bool is_not_live(uint32_t id, uint64_t allocation)
{
    return likely(!live_set_has_near(&heaps[id].live, allocation)) ||
           !near_might_hold(id, allocation);
}

/* Return whether the report needs nothing more: the heap is not profiled, or nothing was sampled.
 */
static inline __attribute__((always_inline)) bool is_done(uint32_t id, uint64_t allocation,
                                                          uint64_t size)
{
    uint32_t state = heap_state(id);
    if (likely(state == HEAP_IDLE))
        return likely(!heaps_should_check());
    if (unlikely(state != HEAP_COUNTS))
        return false;
    struct ring_thread *line = heap_line_known(id);
    return likely(line != NULL) && likely(is_not_live(id, allocation)) && client_take(line, size);
}

EXPORT_HOT bool AHeapProfile_reportAllocation(uint32_t id, uint64_t allocation, uint64_t size)
{
    FORWARD(report_allocation, id, allocation, size);
    if (likely(is_done(id, allocation, size)))
        return false;
    return entry_report_allocation(id, allocation, size, NULL);
}

EXPORT_HOT bool HeapProfile_reportAllocationOfType(uint32_t id, uint64_t allocation, uint64_t size,
                                                   const char *type)
{
    FORWARD(report_of_type, id, allocation, size, type);
    if (likely(is_done(id, allocation, size)))
        return false;
    return entry_report_allocation(id, allocation, size, type);
}

EXPORT bool AHeapProfile_reportSample(uint32_t id, uint64_t allocation, uint64_t size)
{
    FORWARD(report_sample, id, allocation, size);
    if (likely(heap_state(id) == HEAP_IDLE) && likely(!heaps_should_check()))
        return false;
    return entry_report_sample(id, allocation, size, NULL);
}

EXPORT_HOT void AHeapProfile_reportFree(uint32_t id, uint64_t allocation)
{
    FORWARD(report_free, id, allocation);
    uint32_t state = heap_state(id);
    if (likely(state == HEAP_IDLE) || likely(is_not_live(id, allocation)))
        return;
    heap_report_free(id, allocation);
}

/* --- slow --- */

HIDDEN bool slow_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                                   const char *type, const struct unwind_registers *caller)
{
    return heap_report_typed(id, allocation, size, type, 0, caller);
}

HIDDEN bool slow_report_sample(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                               const struct unwind_registers *caller)
{
    return heap_report_typed(id, allocation, size, type, RECORD_ALLOC_WEIGHED, caller);
}
