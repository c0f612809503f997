/* SPDX-License-Identifier: Apache-2.0 */
/* Reserve, fill and commit records, wait for room, and find records that a jump left open. */
#include "client/sample/ring_writer.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/sample/abandoned_frame.h"
#include "client/sample/heap_states.h"
#include "client/sample/ring_commit.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "wire/handshake.h"

/* A waiting thread checks this often whether the daemon still lives. */
#define WAIT_SLICE_US 50000u

/* A profiler that lives changes the heartbeat several times a second, also during long work. If it
 * has not changed while a thread waited for this time, the profile ends for this process, even if
 * the profiler's pid is visible: it may be stopped, and must not block the program for ever. */
#define HEARTBEAT_LOST_MS 5000u

/* Pages that are mapped at once: not more than are probably needed, nor more than delay an
 * allocation noticeably. Multiples of all pages. */
#define POPULATE_BYTES_MIN (UINT64_C(64) << 10)
#define POPULATE_BYTES_MAX (UINT64_C(128) << 10)

struct ring_open_records *ring_open_records;

int ring_writer_init(void)
{
    ring_open_records = system_map_wiped(RING_THREADS_MAX * sizeof(*ring_open_records));
    return ring_open_records != NULL ? 0 : -ENOMEM;
}

/* Mark an open record as abandoned, unless it is no longer this thread's or was committed. */
static void abandon(const struct ring_thread *thread, uint64_t position)
{
    uint64_t in_use = load_relaxed(&client.control->reserved) - position;
    union record_header *header = ring_record_at(position);
    union record_header begun = {.word = load_relaxed(&header->word)};
    if (in_use > client.data_mask + 1 || !ring_is_begun_by(begun, thread))
        return; /* committed before the jump, never reserved, or skipped by the daemon */
    union record_header abandoned = begun;
    abandoned.type = RECORD_ABANDONED;
    if (cas_acq_rel(&header->word, &begun.word, abandoned.word))
        add_relaxed(&client.control->lost[RING_LOST_ABANDONED], 1);
}

/* Abandon the thread's open records from this depth on. */
static void abandon_from(struct ring_thread *thread, struct ring_open_records *open, uint32_t depth)
{
    for (uint32_t inner = depth; inner < open->count; inner++)
        abandon(thread, open->record[inner].position);
    open->count = depth;
    if (depth == 0)
        store_relaxed(&thread->in_ring, RING_AWAY);
}

/* Abandon the thread's open records whose frames a jump has certainly left. */
static void abandon_left_records(struct ring_thread *thread, struct ring_open_records *open,
                                 uintptr_t here)
{
    const struct unwind_stack_bounds *bounds = thread_slot_bounds(thread);
    uint32_t depth = 0;
    while (depth < open->count && !abandoned_frame(bounds, open->record[depth].frame, here))
        depth++;
    abandon_from(thread, open, depth);
}

void ring_writer_give_up_open(struct ring_thread *thread, uintptr_t here)
{
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    /* Called with the caller's own frame twice, abandoned_frame() checks only that the frame is on
     * the thread's own stack. */
    if (load_relaxed(&thread->in_ring) == RING_WRITES &&
        abandoned_frame(thread_slot_bounds(thread), here, here))
        abandon_from(thread, open, 0);
}

/*
 * Remember a record before it is reserved at `position`, inside `depth` others. If a signal handler
 * interrupts this function and writes records, it overwrites the entry; but then the reservation
 * fails, and the caller tries again. A handler that writes no record can still reset in_ring, so
 * in_ring is set a second time.
 */
static inline void open_record(struct ring_thread *thread, struct ring_open_records *open,
                               uint32_t depth, uint64_t position, uintptr_t here)
{
    store_relaxed(&thread->in_ring, RING_WRITES);
    barrier_signal();
    if (depth < RING_OPEN_MAX) {
        open->record[depth].position = position;
        open->record[depth].frame = here;
        barrier_signal();
        open->count = depth + 1;
        barrier_signal();
    }
    store_relaxed(&thread->in_ring, RING_WRITES);
    barrier_signal();
}

/* Forget a record that could not be reserved. */
static void unopen_record(struct ring_thread *thread, struct ring_open_records *open,
                          uint32_t depth)
{
    open->count = depth;
    barrier_signal();
    if (likely(depth == 0)) {
        open->written_inside = 0;
        store_relaxed(&thread->in_ring, RING_AWAY);
    }
}

void ring_writer_begin(void)
{
    /* A program with few samples has only the pages that it needs. */
    store_relaxed(&client.process->ring_populated, POPULATE_BYTES_MIN / 4);
}

uint32_t ring_writer_length_max(void)
{
    return (uint32_t)((client.data_mask + 1) / 4);
}

/* Stop sampling, without reporting a reason: the daemon ended the session, or has the reason. */
static void leave_session(void)
{
    uint32_t active = CLIENT_ACTIVE;
    if (cas_relaxed(&client.process->state, &active, CLIENT_ENDED))
        heap_states_end();
}

void ring_writer_end_session(enum ring_client_state reason)
{
    uint32_t running = RING_CLIENT_RUNNING;
    cas_relaxed(&client.control->client_state, &running, (uint32_t)reason);
    leave_session();
}

/* Count the time since the last check as a wait, and return whether the profiler has been silent
 * for too long. A longer time counts as WAIT_SLICE_US: the thread was stopped, or got no processor,
 * and so perhaps did the profiler. */
static bool is_silent(struct ring_silence *silence, uint64_t now_us)
{
    uint32_t beat_ms = (uint32_t)load_relaxed(&client.control->heartbeat_ms);
    uint16_t now_ms = (uint16_t)(now_us / 1000);
    uint16_t passed_ms = (uint16_t)(now_ms - silence->since_ms);
    if (beat_ms != silence->beat_ms)
        *silence = (struct ring_silence){.beat_ms = beat_ms, .since_ms = now_ms, .is_waiting = 1};
    else if (passed_ms > 0) {
        uint16_t most_ms = WAIT_SLICE_US / 1000;
        silence->waited_ms += passed_ms < most_ms ? passed_ms : most_ms;
        silence->since_ms = now_ms;
    }
    return silence->waited_ms > HEARTBEAT_LOST_MS;
}

static bool daemon_is_gone(struct ring_silence *silence, uint64_t now_us)
{
    if (client.daemon_pid > 0 && system_call(CALL_FIND_PROCESS, client.daemon_pid) == -ESRCH)
        return true;
    return is_silent(silence, now_us);
}

/* Begin a wait. Return whether the profiler was silent for too long in earlier ones, if a jump
 * ended the last of them. */
static bool was_silent(struct ring_silence *silence, uint64_t now_us)
{
    if (silence->is_waiting)
        return is_silent(silence, now_us);
    silence->since_ms = (uint16_t)(now_us / 1000);
    silence->is_waiting = 1;
    return false;
}

/* Map pages of the ring before they are first written: many in one call take a third of the time of
 * as many faults. Whoever moves the mark maps them. */
static __attribute__((noinline)) void populate(uint64_t mark)
{
    uint64_t from = mark & ~(uint64_t)(POPULATE_BYTES_MIN - 1);
    uint64_t bytes = from < POPULATE_BYTES_MIN ? POPULATE_BYTES_MIN : from;
    uint64_t to = from + (bytes < POPULATE_BYTES_MAX ? bytes : POPULATE_BYTES_MAX);
    bool is_last = to > client.data_mask;
    if (!cas_relaxed(&client.process->ring_populated, &mark, is_last ? UINT64_MAX : to))
        return;
    long code = system_call(CALL_POPULATE, client.data + from,
                            (is_last ? client.data_mask + 1 : to) - from);
    if (code != 0) /* kernels before 5.14 */
        store_relaxed(&client.process->ring_populated, UINT64_MAX);
}

void ring_writer_prefetch(const struct ring_thread *thread)
{
    uint64_t reserved = load_relaxed(&client.control->reserved);
    uint64_t mark = load_relaxed(&client.process->ring_populated);
    if (unlikely(reserved >= mark))
        populate(mark);
    const union record_header *next = ring_record_at(reserved);
    __builtin_prefetch(next, 1);
    __builtin_prefetch((const char *)next + 64, 1);
    __builtin_prefetch(&client.control->consumed);
    __builtin_prefetch(&ring_open_records[ring_slot_of(thread)], 1);
}

static bool has_space(uint64_t reserved, uint32_t length)
{
    /* Acquire: the daemon zeroed the memory before it gave it back. */
    uint64_t consumed = load_acquire(&client.control->consumed);
    if (likely(reserved + length - consumed <= client.data_mask + 1))
        return true;
    /* Other threads may have written since `reserved` was read, and the daemon may have read past
     * it. Then the reservation fails, and the caller tries again. */
    return (int64_t)(reserved - consumed) < 0;
}

/* Wait for space. Return false if the session has ended. It is rare, and its variables need not be
 * in the caller's frame. */
static __attribute__((noinline)) bool wait_for_space(struct ring_thread *thread, uint32_t length)
{
    struct ring_control *control = client.control;
    if (!(client.flags & HANDSHAKE_BLOCK_CLIENT)) {
        ring_writer_end_session(RING_CLIENT_OVERRAN);
        return false;
    }
    /* A signal handler inside an open record cannot wait: the daemon cannot read past that record,
     * so no space would come. */
    if (load_relaxed(&thread->in_ring) == RING_WRITES)
        return false;

    bool fits = false;
    uint64_t began_us = clock_now_us(), waited_us = 0;
    struct ring_silence *silence = &ring_open_records[ring_slot_of(thread)].silence;
    bool is_gone = was_silent(silence, began_us);
    add_ordered(&control->waiters, 1);
    while (client_state() == CLIENT_ACTIVE) {
        if (is_gone) {
            ring_writer_end_session(RING_CLIENT_DAEMON_GONE);
            break;
        }
        store_relaxed(&thread->in_ring, RING_WAITS); /* a signal handler may have changed it */
        uint32_t seen = load_ordered(&control->space_futex);
        if ((fits = has_space(load_relaxed(&control->reserved), length)))
            break;
        uint64_t slice_us = WAIT_SLICE_US;
        if (client.block_timeout_us > 0) {
            if (waited_us >= client.block_timeout_us) {
                ring_writer_end_session(RING_CLIENT_TIMED_OUT);
                break;
            }
            if (client.block_timeout_us - waited_us < slice_us)
                slice_us = client.block_timeout_us - waited_us;
        }
        struct timespec slice = {.tv_nsec = (long)slice_us * 1000};
        system_call(CALL_WAIT_FOR_SPACE, &control->space_futex, seen, &slice);
        waited_us = clock_now_us() - began_us;
        store_relaxed(&control->waiting_ms, (began_us + waited_us) / 1000);
        if (load_relaxed(&control->stopping) != 0) {
            leave_session();
            break;
        }
        is_gone = daemon_is_gone(silence, began_us + waited_us);
    }
    silence->is_waiting = 0;
    store_relaxed(&thread->in_ring, RING_AWAY);
    sub_relaxed(&control->waiters, 1);
    add_relaxed(&control->blocked_us, waited_us);
    return fits;
}

/* Reserve [reserved, reserved + length), inside `depth` open records. Return NULL if others have
 * reserved meanwhile. */
static inline __attribute__((always_inline)) union record_header *
try_to_reserve(struct ring_thread *thread, uint32_t depth, uint64_t reserved, uint32_t length,
               uintptr_t here)
{
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    uint64_t position = reserved;
    open_record(thread, open, depth, position, here);
    if (unlikely(!cas_relaxed(&client.control->reserved, &reserved, reserved + length))) {
        unopen_record(thread, open, depth);
        return NULL;
    }
    union record_header *header = ring_record_at(position);
    union record_header busy = {
        .length = length, .type = RECORD_BUSY, .thread = ring_slot_of(thread)};
    /* Release is not needed: a reader that sees 0 here waits, and one that sees RECORD_BUSY
     * reads no further. */
    store_relaxed(&header->word, busy.word);
    return header;
}

/* Reserve at a moment that is not the usual one. `here`: of ring_writer_reserve(). */
static __attribute__((noinline)) void *reserve_slowly(struct ring_thread *thread, uint32_t length,
                                                      uintptr_t here)
{
    struct ring_control *control = client.control;
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    if (load_relaxed(&thread->in_ring) != RING_WRITES)
        open->count = 0; /* entries may be left over from the slot's previous thread */
    else
        abandon_left_records(thread, open, here);
    uint32_t depth = open->count;
    for (;;) {
        if (client_state() != CLIENT_ACTIVE)
            return NULL;
        if (load_relaxed(&control->stopping) != 0) {
            leave_session();
            return NULL;
        }
        uint64_t reserved = load_relaxed(&control->reserved);
        if (!has_space(reserved, length)) {
            if (!wait_for_space(thread, length))
                return NULL;
            continue;
        }
        void *record = try_to_reserve(thread, depth, reserved, length, here);
        if (record != NULL)
            return record;
    }
}

void *ring_writer_reserve(struct ring_thread *thread, uint32_t length)
{
    const struct ring_control *control = client.control;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    length = (length + 7) & ~7u;
    uint64_t reserved = load_relaxed(&control->reserved);
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    void *record = NULL;
    if (likely(load_relaxed(&thread->in_ring) != RING_WRITES) &&
        likely(client_state() == CLIENT_ACTIVE) && likely(load_relaxed(&control->stopping) == 0) &&
        likely(has_space(reserved, length))) {
        open->count = 0; /* entries may be left over from the slot's previous thread */
        barrier_signal();
        record = try_to_reserve(thread, 0, reserved, length, here);
    }
    return likely(record != NULL) ? record : reserve_slowly(thread, length, here);
}

bool ring_writer_commit(struct ring_thread *thread, void *record, enum record_type type)
{
    return ring_writer_commit_of_heap(thread, record, type, 0);
}

/* The end is written last, because a signal handler may note its own ALLOC in between. Our end is
 * then not the ring's. */
void ring_writer_note_alloc(struct ring_thread *thread, uint64_t end,
                            const struct ring_alloc *alloc)
{
    struct ring_pending *last = &client.pending[ring_slot_of(thread)];
    last->last_address = alloc->address;
    last->last_heap = alloc->heap;
    last->last_ordinal = alloc->ordinal;
    last->last_time_ms = alloc->time_ms;
    barrier_signal();
    last->last_end = end;
}

bool ring_writer_free_last(struct ring_thread *thread, const struct ring_alloc *freed)
{
    struct ring_control *control = client.control;
    const struct ring_pending *last = &client.pending[ring_slot_of(thread)];
    uint64_t end = last->last_end, reserved = end;
    if (last->last_address != freed->address || last->last_ordinal != freed->ordinal ||
        last->last_time_ms != freed->time_ms || last->last_heap != freed->heap || end == 0 ||
        load_relaxed(&control->reserved) != end || load_relaxed(&thread->in_ring) == RING_WRITES ||
        !has_space(end, sizeof(struct record_free_last)))
        return false;
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    open_record(thread, open, 0, end, here);
    /* Succeeds only if nothing was reserved since: positions never return. */
    if (!cas_relaxed(&control->reserved, &reserved, end + sizeof(struct record_free_last))) {
        unopen_record(thread, open, 0);
        return false;
    }
    union record_header *header = ring_record_at(end);
    union record_header ready = {.length = sizeof(struct record_free_last),
                                 .type = RECORD_FREE_LAST,
                                 .heap = freed->heap,
                                 .thread = ring_slot_of(thread)};
    store_release(&header->word, ready.word);
    ring_close_record(thread, end & client.data_mask);
    ring_wake(end & client.data_mask, sizeof(struct record_free_last));
    return true;
}

bool ring_writer_commit_of_heap(struct ring_thread *thread, void *record, enum record_type type,
                                uint8_t heap)
{
    union record_header *header = record;
    uint32_t length = load_relaxed(&header->length);
    return ring_commit(thread, header, length, type, heap);
}
