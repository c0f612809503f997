/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of the ring (wire/ring.h): reserve, fill, commit.
 *
 * If the ring is full, the caller waits if the session allows it. It never waits
 * for a daemon that is gone, nor in a signal handler that interrupted a write of
 * the same thread: the reader cannot pass that write. Otherwise the session ends
 * for this process.
 *
 * A thread remembers its open records. If it finds one whose writer a jump has left, it commits the
 * record as RECORD_ABANDONED and counts it. If it cannot tell, the daemon steps over the record
 * after a time.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_RING_WRITER_H
#define HEAPPROFD_CLIENT_SAMPLE_RING_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"
#include "wire/ring.h"

/* Map the table of open records. Return 0 or -ENOMEM. */
int ring_writer_init(void);

/* What identifies an ALLOC for its FREE_LAST. */
struct ring_alloc {
    uint64_t address;
    uint32_t ordinal, time_ms;
    uint8_t heap;
};

/* Call it when the process has entered a ring, before it writes there. */
void ring_writer_begin(void);

/*
 * Reserve a record of `length` bytes (rounded up to 8), marked as busy. The caller does not write
 * its header. Return NULL if the session is over, or if the ring is full and this is a signal
 * handler that interrupted a write of its own thread.
 */
void *ring_writer_reserve(struct ring_thread *thread, uint32_t length);

/* Commit this thread's open records as abandoned. The caller, at frame address `here`, has seen in
 * the thread's stack that none of their writers is still running. */
void ring_writer_give_up_open(struct ring_thread *thread, uintptr_t here);

/* Prefetch the cache lines of the next record: another processor has read and cleared them. Call it
 * as soon as a record is certain, and while none is open. Makes system calls while the ring is new.
 */
void ring_writer_prefetch(const struct ring_thread *thread);

/* Publish a record. Return false if the daemon has stepped over it; it then counts as lost. */
bool ring_writer_commit(struct ring_thread *thread, void *record, enum record_type type);
/* The same for a heap other than malloc's. */
bool ring_writer_commit_of_heap(struct ring_thread *thread, void *record, enum record_type type,
                                uint8_t heap);

/* Note the ALLOC that the thread has just published, with its end (ring_end_of()), so that
 * ring_writer_free_last() finds it. */
void ring_writer_note_alloc(struct ring_thread *thread, uint64_t end,
                            const struct ring_alloc *alloc);

/* Write a FREE_LAST for the block, if its ALLOC is the last record in the ring and this thread's
 * own, with the same time and ordinal. Return false if it is not. */
bool ring_writer_free_last(struct ring_thread *thread, const struct ring_alloc *freed);

/* End the session for this process. The first reason is kept. */
void ring_writer_end_session(enum ring_client_state reason);

/* Return the length of the longest record that fits the ring. */
uint32_t ring_writer_length_max(void);

#endif
