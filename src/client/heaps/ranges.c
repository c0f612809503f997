/* SPDX-License-Identifier: Apache-2.0 */
/* Count mapped ranges and send their records, except for the allocator's own calls. */
#include "client/heaps/ranges.h"

#include "client/arch/registers.h"
#include "client/heaps/heaps.h"
#include "client/libc/libc.h"
#include "client/modules/module_object.h"
#include "client/real_allocator.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "client/sample/sampler.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"
#include "wire/record.h"

static size_t page_bytes = 4096;

void ranges_init(void)
{
    size_t bytes = getauxval(AT_PAGESZ);
    if (bytes != 0)
        page_bytes = bytes;
}

size_t ranges_round_up(size_t bytes)
{
    return (bytes + page_bytes - 1) & ~(page_bytes - 1);
}

/* Return whether the allocator itself makes the call: its mappings are not the program's
 * allocations. (The C library's malloc does not call the hooks at all.) */
static bool is_allocators(uintptr_t pc)
{
    struct module_object caller, allocator;
    real_resolve();
    return module_object_find(pc, &caller) &&
           module_object_find((uintptr_t)real.malloc, &allocator) &&
           caller.start == allocator.start;
}

/* Two sessions of a process do not begin in the same millisecond. */
static uint64_t this_session(void)
{
    return client.start_ms + 1;
}

static bool is_wanted(void)
{
    uint32_t id = load_acquire(&heaps_mmap);
    return client_state() == CLIENT_ACTIVE &&
           load_acquire(&client.process->heap_states[id]) != HEAP_IDLE;
}

struct range_call ranges_enter(const struct unwind_registers *caller)
{
    struct range_call call = {0};
    session_join_or_tick();
    struct thread_passage passage;
    thread_enter(&passage);
    if (is_wanted() && !is_allocators(caller->pc)) {
        call.session = this_session();
        call.before = load_ordered(&client.control->reserved);
    }
    thread_leave(&passage);
    return call;
}

static void send_unmap(struct ring_thread *thread, uint32_t id, const struct range_call *call,
                       uintptr_t address, size_t bytes)
{
    const struct ring_thread *line = heap_line_known(id);
    sample_introduce(thread);
    struct record_unmap *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL) {
        sample_lose(RING_LOST_FREE);
        return;
    }
    record->address = address;
    record->length = bytes;
    record->before = call->before;
    record->time_ms = sample_time_ms();
    record->ordinal = line != NULL ? (uint32_t)line->calls : 0;
    ring_writer_commit_of_heap(thread, record, RECORD_UNMAP, (uint8_t)id);
}

static void account_range(struct ring_thread *thread, uint32_t id, uintptr_t address, size_t bytes,
                          bool nested, const struct unwind_registers *caller)
{
    const struct AHeapInfo *heap = &heaps[id];
    struct ring_thread *line = heap_line_get(thread, id);
    struct ring_pending *pending = line != NULL ? heap_pending(line) : NULL;
    if (line == NULL || !sampler_count(line, pending, bytes, &heap->rule, &heap->rule))
        return;
    if (!nested)
        sample_lose_abandoned(pending, bytes);
    const struct sample sample = {
        .address = address,
        .size = bytes,
        .interval = heap->interval_numbers[0],
        .flags = RECORD_ALLOC_RANGE,
        .ordinal = (uint32_t)line->calls,
        .heap = (uint8_t)id,
        .pending = pending,
    };
    sample_record(thread, &sample, caller);
}

void ranges_leave(const struct range_call *call, uintptr_t unmapped, size_t unmapped_bytes,
                  uintptr_t mapped, size_t mapped_bytes, const struct unwind_registers *caller)
{
    int saved_errno = errno;
    struct thread_passage passage;
    thread_enter(&passage);
    /* A call that began before the session is not counted in it. */
    struct ring_thread *thread =
        is_wanted() && call->session == this_session() ? thread_slot_get() : NULL;
    uint32_t id = load_acquire(&heaps_mmap);
    if (thread != NULL && heap_apply_state(thread, id)) {
        if (unmapped_bytes != 0)
            send_unmap(thread, id, call, unmapped, unmapped_bytes);
        if (mapped_bytes != 0)
            account_range(thread, id, mapped, mapped_bytes, passage.was != 0, caller);
    }
    thread_leave(&passage);
    if (heaps_have_due_callbacks())
        heaps_run_callbacks();
    errno = saved_errno;
}
