/* SPDX-License-Identifier: Apache-2.0 */
/* The slow halves of reports to a heap other than malloc's: from the sampling decision to the
 * record in the ring. sample/heap_states.h explains a heap's state. */
#include <stddef.h>

#include "client/client.h"
#include "client/heaps/heaps.h"
#ifndef HEAPPROFD_ATTACHED
#include "client/libc/libc.h"
#endif
#include "client/probes.h"
#include "client/sample/context.h"
#include "client/sample/overhead.h"
#include "client/sample/sample.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"
#include "wire/record.h"

#ifdef HEAPPROFD_ATTACHED
/* An attached client calls no function that sets errno. */
static int save_errno(void)
{
    return 0;
}
static void restore_errno(int saved)
{
    (void)saved;
}
#else
static int save_errno(void)
{
    return errno;
}
static void restore_errno(int saved)
{
    errno = saved;
}
#endif

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
    uint64_t begun_ns = overhead_begin_event(sample_free_number(&freed));
    bool recorded = sample_record_free(thread, &freed);
    overhead_end_free(begun_ns);
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
    uint64_t begun_ns = overhead_begin_event(thread->samples);
    if (!sample_record(thread, &sample, caller))
        return false;
    if (probes_want_allocations())
        probes_fire_allocation(allocation, size, weighed ? &rule_of_weighed : &rule);
    adaptive_adjust(thread);
    overhead_end_sample(thread, begun_ns, size);
    return true;
}

bool heap_report_typed(uint32_t id, uint64_t allocation, uint64_t size, const char *type,
                       uint32_t flags, const struct unwind_registers *caller)
{
    if (id == 0 || id >= HEAPS_MAX)
        return false;
    int saved_errno = save_errno();
    session_join_or_tick();
    struct thread_passage passage;
    thread_enter(&passage);
    bool sampled = account_allocation(id, allocation, size, type, flags, passage.was != 0, caller);
    thread_leave(&passage);
    if (heaps_have_due_callbacks())
        heaps_run_callbacks();
    restore_errno(saved_errno);
    return sampled;
}

bool heap_report_allocation(uint32_t id, uint64_t allocation, uint64_t size,
                            const struct unwind_registers *caller)
{
    return heap_report_typed(id, allocation, size, NULL, 0, caller);
}

/* Return the slot of a thread that is inside, if the session is active; otherwise NULL. */
static struct ring_thread *active_thread(uint32_t id)
{
    return client_state() == CLIENT_ACTIVE && id != 0 ? thread_slot_get() : NULL;
}

__attribute__((noinline)) bool heap_report_free(uint32_t id, uint64_t allocation)
{
    int saved_errno = save_errno();
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = active_thread(id);
    bool recorded = thread != NULL && account_free(thread, id, allocation);
    thread_leave(&passage);
    restore_errno(saved_errno);
    return recorded;
}

void heap_report_unfree(uint32_t id, uint64_t allocation)
{
    int saved_errno = save_errno();
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = active_thread(id);
    const struct sample_freed freed = freed_sample(id, allocation);
    if (thread != NULL)
        sample_record_unfree(thread, &freed);
    thread_leave(&passage);
    restore_errno(saved_errno);
}
