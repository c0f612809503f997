/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open records of a thread, and the steps that commit one. They are inline for the writers of
 * samples and frees; others call ring_writer_commit().
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_RING_COMMIT_H
#define HEAPPROFD_CLIENT_SAMPLE_RING_COMMIT_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/system.h"
#include "wire/record.h"
#include "wire/ring.h"

/* Open records of one thread that are remembered: signal handlers nest. */
#define RING_OPEN_MAX 3u

/* Records that a thread may write inside an open one. After that, the open one counts as left by a
 * jump that was not noticed. */
#define RING_WRITTEN_INSIDE_MAX 4096u

/* The last heartbeat that a waiting thread has seen, and how long it has waited since, in one wait
 * or in several: a signal handler may jump out of each. */
struct ring_silence {
    uint32_t beat_ms;  /* the low bits of the time in it */
    uint16_t since_ms; /* the low bits of the time that waited_ms counts up to */
    uint16_t waited_ms : 15, is_waiting : 1;
};

struct ring_open_records {
    uint32_t count;
    uint32_t written_inside; /* while the outermost was open */
    struct {
        uint64_t position; /* in bytes since the ring began, like control->reserved */
        uintptr_t frame;   /* of ring_writer_reserve() */
    } record[RING_OPEN_MAX];
    struct ring_silence silence;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct ring_open_records) == 64, "one cache line for each thread");

/* By slot; wiped on fork. */
extern HIDDEN struct ring_open_records *ring_open_records;

static inline uint16_t ring_slot_of(const struct ring_thread *thread)
{
    return (uint16_t)(thread - client.threads);
}

static inline union record_header *ring_record_at(uint64_t position)
{
    return (union record_header *)(client.data + (position & client.data_mask));
}

/* Return whether this thread has begun the record with this header. No other thread writes such a
 * word, even if the place was reused. */
static inline bool ring_is_begun_by(union record_header header, const struct ring_thread *thread)
{
    return header.type == RECORD_BUSY && header.thread == ring_slot_of(thread);
}

/* Return the offset of a record in the ring. */
static inline uint64_t ring_offset_of(const void *record)
{
    return (uintptr_t)record - (uintptr_t)client.data;
}

/* Publish a record. Return false if the daemon has stepped over it; it then counts as lost. A
 * signal handler may leave the steps that follow by a jump. */
static inline bool ring_publish(const struct ring_thread *thread, union record_header *header,
                                enum record_type type, uint8_t heap)
{
    union record_header ready = {.word = load_relaxed(&header->word)};
    bool in_time = ring_is_begun_by(ready, thread);
    if (likely(in_time)) {
        ready.type = type;
        ready.heap = heap;
        /* Release: the daemon loads the header with acquire and then reads the body. */
        store_release(&header->word, ready.word);
    } else {
        add_relaxed(&client.control->lost[RING_LOST_ABANDONED], 1);
    }
    return in_time;
}

/* Forget the record at this offset of the ring, which is no longer open. */
static inline void ring_close_record(struct ring_thread *thread, uint64_t offset)
{
    struct ring_open_records *open = &ring_open_records[ring_slot_of(thread)];
    barrier_signal();
    if (open->count > 0 && (open->record[open->count - 1].position & client.data_mask) == offset)
        open->count--;
    if (unlikely(open->count > 0) && ++open->written_inside > RING_WRITTEN_INSIDE_MAX)
        open->count = 0;
    if (likely(open->count == 0)) {
        open->written_inside = 0;
        store_relaxed(&thread->in_ring, RING_AWAY);
    }
}

/* Wake the daemon once when the ring becomes half full. A polling daemon needs no wake-up. */
static inline void ring_wake(uint64_t offset, uint32_t length)
{
    struct ring_control *control = client.control;
    uint64_t half = (client.data_mask + 1) / 2;
    if (unlikely(((offset + length) & half) != (offset & half)) &&
        load_relaxed(&control->reserved) - load_relaxed(&control->consumed) >= half) {
        add_ordered(&control->wake_futex, 1);
        system_call(CALL_WAKE, &control->wake_futex);
    }
}

/* All steps: see ring_writer_commit_of_heap(). */
static inline bool ring_commit(struct ring_thread *thread, union record_header *header,
                               uint32_t length, enum record_type type, uint8_t heap)
{
    uint64_t offset = ring_offset_of(header);
    bool in_time = ring_publish(thread, header, type, heap);
    ring_close_record(thread, offset);
    if (likely(in_time))
        ring_wake(offset, length);
    return in_time;
}

/*
 * Return the position of the end of a record of this length, a multiple of 8, which is open: once
 * it is published, the ring may wrap around.
 *
 *              position                end                    reserved
 *     ────────────┼──────length─────────┼──────────────────────────┼──▸ bytes since the ring began
 *                 └──────────── 1 byte to a whole ring ────────────┘
 */
static inline uint64_t ring_end_of(uint64_t offset, uint32_t length)
{
    /* The record begins at most a whole ring before the end of what is reserved. */
    uint64_t reserved = load_relaxed(&client.control->reserved);
    return reserved - ((reserved - offset - 1) & client.data_mask) - 1 + length;
}

#endif
