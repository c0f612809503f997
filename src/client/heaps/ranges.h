/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program maps itself (the heap libc.mmap): ranges that come, and memory that goes.
 *
 * A range's ALLOC is sent when it is mapped; what is unmapped is told afterwards, when it is known
 * that it was. By then another thread may have been given the same memory, and its ALLOC may stand
 * first: so an UNMAP names the point of the ring before which the call began, and takes out only
 * what is older. An ALLOC takes out all that it lies over (MAP_FIXED).
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_RANGES_H
#define HEAPPROFD_CLIENT_HEAPS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "client/unwind/unwind.h"

/* The moment before a call. */
struct range_call {
    uint64_t session; /* which it fell in; 0: the call is not counted */
    uint64_t before;  /* ring_control.reserved */
};

/* Learns the page size; idempotent. */
void ranges_init(void);

/* To be called before the real function, joins a session that is to be joined. */
struct range_call ranges_enter(const struct unwind_registers *caller);

/* After it, with what it came to; one of both may be empty. Lengths of what is mapped by pages are
 * rounded up to them. Leaves errno as it is. */
void ranges_leave(const struct range_call *call, uintptr_t unmapped, size_t unmapped_bytes,
                  uintptr_t mapped, size_t mapped_bytes, const struct unwind_registers *caller);

size_t ranges_round_up(size_t bytes);

#endif
