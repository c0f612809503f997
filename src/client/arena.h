/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory in which threads count: the ring of a session, or, without a session, an arena of the
 * same layout that nobody reads. A process moves to another arena when a session begins or ends.
 *
 * The old arena stays mapped as empty private memory until the move after the next: a thread that
 * was interrupted on the hot path may still write a word there. That does no harm.
 */
#ifndef HEAPPROFD_CLIENT_ARENA_H
#define HEAPPROFD_CLIENT_ARENA_H

#include <stdint.h>

/* Move to the ring of a descriptor. Return 0 or a negative errno; after an error nothing has
 * changed. */
int arena_enter_ring(int fd, uint64_t data_bytes);

/* Move to an arena without a ring. Return 0 or -ENOMEM; after an error nothing has changed. */
int arena_enter_dormant(void);

#endif
