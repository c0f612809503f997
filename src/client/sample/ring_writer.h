/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producing side of the ring (wire/ring.h): reserve, fill, commit.
 *
 * A full ring makes the caller wait when the session allows it, but never for
 * a daemon that is gone, and never inside a signal handler that interrupted a
 * write of the same thread (the reader cannot pass that write). Otherwise the
 * session ends for this process.
 *
 * A thread keeps in mind which records it has open. When it comes back and finds one whose writer
 * was left by a jump, it commits that as RECORD_ABANDONED and counts it; where it cannot know, the
 * daemon steps over the record after a time.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_RING_WRITER_H
#define HEAPPROFD_CLIENT_SAMPLE_RING_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"
#include "wire/ring.h"

/* Maps what threads keep in mind; 0 or -ENOMEM. */
int ring_writer_init(void);

/*
 * A place for a record of length bytes (rounded up to 8), marked as busy; the
 * header is not the caller's to write. NULL: the session is over, or this is a
 * signal handler inside a write of its own thread and the ring is full.
 */
void *ring_writer_reserve(struct ring_thread *thread, uint32_t length);

/* No function that began a record of this thread is still to go on: what is open was left. For a
 * caller who knows this of the thread's own stack; one of its callers, at `here`. */
void ring_writer_give_up_open(struct ring_thread *thread, uintptr_t here);

/* Asks for the cache lines that the next record will take: another processor has read and
 * cleared them since, so they are far. To be called as early as a record is known to come. */
void ring_writer_prefetch(const struct ring_thread *thread);

/* Publishes it. False: the daemon has stepped over it, and it is counted as lost. */
bool ring_writer_commit(struct ring_thread *thread, void *record, enum record_type type);
/* The same of another heap than malloc's. */
bool ring_writer_commit_of_heap(struct ring_thread *thread, void *record, enum record_type type,
                                uint8_t heap);

/* The same in two steps. Work that must follow the record at once goes between them, because a
 * signal handler may leave the second step by a jump. */
bool ring_writer_publish(struct ring_thread *thread, void *record, enum record_type type,
                         uint8_t heap);
void ring_writer_wake(const void *record, uint32_t length);

/* Ends the session for this process, for that reason. The first reason stands. */
void ring_writer_end_session(enum ring_client_state reason);

/* Whether a record of this length could ever fit. */
uint32_t ring_writer_length_max(void);

#endif
