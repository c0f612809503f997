/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions by which programs report allocations and frees of their own heaps: the hot halves,
 * and the slow halves that arch/<cpu>/entry_report.S calls. sample/heap_states.h explains a heap's
 * state.
 */
#include <stddef.h>

#include "client/client.h"
#include "client/forward.h"
#include "client/heaps/heaps.h"
#include "client/libc/libc.h"
#include "client/probes.h"
#include "client/sample/context.h"
#include "client/sample/sample.h"
#include "client/sample/sample_rate.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"
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

/* Return live_set_might_hold(). Not inlined: the caller, which seldom needs it, would save
 * registers for it each time. */
static __attribute__((noinline)) bool might_hold(uint32_t id, uint64_t allocation)
{
    return live_set_might_hold(&heaps[id].live, allocation);
}

/* Return whether the allocation is certainly not live. */
static inline bool is_not_live(uint32_t id, uint64_t allocation)
{
    return likely(!live_set_has_near(&heaps[id].live, allocation)) || !might_hold(id, allocation);
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

/* A sample that the program has drawn itself stands for its own size. */
static const struct sampler_rule rule_of_weighed = {.interval_bytes = 1};

static struct sample_freed freed_sample(uint32_t id, uint64_t allocation)
{
    const struct ring_thread *line = heap_line_known(id);
    return (struct sample_freed){.address = allocation,
                                 .ordinal = line != NULL ? (uint32_t)line->calls : 0,
                                 .heap = (uint8_t)id,
                                 .live = &heaps[id].live};
}

/* Record the free of a sampled allocation. Return whether it was one and the record was sent. */
static bool account_free(struct ring_thread *thread, uint32_t id, uint64_t allocation)
{
    const struct sample_freed freed = freed_sample(id, allocation);
    if (!live_set_remove(freed.live, allocation))
        return false;
    bool recorded = sample_record_free(thread, &freed);
    if (probes_want_frees())
        probes_fire_free(allocation);
    return recorded;
}

/* `nested`: the caller is a signal handler that interrupted a sample of its thread. */
static bool account_allocation(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                               uint32_t flags, bool nested, const struct unwind_registers *caller)
{
    /* This thread is inside: an active session and its ring do not change until it leaves. */
    struct ring_thread *thread = client_state() == CLIENT_ACTIVE ? thread_slot_get() : NULL;
    if (thread == NULL || !heap_apply_state(thread, id))
        return false;
    struct AHeapInfo *heap = &heaps[id];
    account_free(thread, id, allocation);
    struct ring_thread *line = heap_line_get(thread, id);
    if (line == NULL)
        return false;
    bool weighed = (flags & RECORD_ALLOC_WEIGHED) != 0;
    struct ring_pending *pending = heap_pending(line);
    uint32_t drawn_by = line->rule;
    struct sampler_rule rule = heap_rule(heap, drawn_by);
    if (!weighed) {
        uint32_t doublings = heap_doublings(thread, id, drawn_by);
        struct sampler_rule next = heap_rule(heap, doublings);
        if (!sampler_count(line, pending, size, &rule, &next))
            return false;
        line->rule = (uint16_t)doublings;
    }
    if (!weighed && !nested)
        sample_lose_abandoned(pending, size);
    const struct sample sample = {
        .address = allocation,
        .size = size,
        .interval = heap->interval_numbers[drawn_by],
        .flags = flags,
        .ordinal = (uint32_t)line->calls,
        .heap = (uint8_t)id,
        .live = &heap->live,
        .type = type,
        .pending = weighed ? NULL : pending,
    };
    if (!sample_record(thread, &sample, caller))
        return false;
    if (probes_want_allocations())
        probes_fire_allocation(allocation, size, weighed ? &rule_of_weighed : &rule);
    adaptive_adjust(thread);
    sample_rate_count(thread);
    return true;
}

static bool report(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                   uint32_t flags, const struct unwind_registers *caller)
{
    if (id == 0 || id >= RING_HEAPS_MAX)
        return false;
    int saved_errno = errno;
    session_join_or_tick();
    struct thread_passage passage;
    thread_enter(&passage);
    bool sampled = account_allocation(id, allocation, size, type, flags, passage.was != 0, caller);
    thread_leave(&passage);
    if (heaps_have_due_callbacks())
        heaps_run_callbacks();
    errno = saved_errno;
    return sampled;
}

HIDDEN bool slow_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                                   const char *type, const struct unwind_registers *caller)
{
    return report(id, allocation, size, type, 0, caller);
}

HIDDEN bool slow_report_sample(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                               const struct unwind_registers *caller)
{
    return report(id, allocation, size, type, RECORD_ALLOC_WEIGHED, caller);
}

bool heap_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                            const struct unwind_registers *caller)
{
    return report(id, allocation, size, NULL, 0, caller);
}

/* Return the slot of a thread that is inside, if the session is active; otherwise NULL. */
static struct ring_thread *active_thread(uint32_t id)
{
    return client_state() == CLIENT_ACTIVE && id != 0 ? thread_slot_get() : NULL;
}

__attribute__((noinline)) bool heap_report_free(uint32_t id, uint64_t allocation)
{
    int saved_errno = errno;
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = active_thread(id);
    bool recorded = thread != NULL && account_free(thread, id, allocation);
    thread_leave(&passage);
    errno = saved_errno;
    return recorded;
}

void heap_report_unfree(uint32_t id, uint64_t allocation)
{
    int saved_errno = errno;
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = active_thread(id);
    const struct sample_freed freed = freed_sample(id, allocation);
    if (thread != NULL)
        sample_record_unfree(thread, &freed);
    thread_leave(&passage);
    errno = saved_errno;
}
