/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory in which threads count: a session's ring, or, without one, an arena of the same
 * form that nobody reads. A process moves from one to the next as sessions begin and end.
 *
 * The one that was left stays in place as empty private memory until the move after the next: a
 * thread that was interrupted on the hot path may still write a word there. It harms nobody and
 * takes no memory.
 */
#ifndef HEAPPROFD_CLIENT_ARENA_H
#define HEAPPROFD_CLIENT_ARENA_H

#include <stdint.h>

/* Moves to the ring behind fd; 0 or a negative errno, which leaves all as it was. */
int arena_enter_ring(int fd, uint64_t data_bytes);

/* Moves to an arena without a ring; 0 or -ENOMEM, which leaves all as it was. */
int arena_enter_dormant(void);

#endif
