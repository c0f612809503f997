/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap libc.mmap: memory that the program maps and unmaps itself.
 *
 * ALLOC and UNMAP records are sent after the call, when its success is known. By then another
 * thread may have mapped the same memory, and its ALLOC may precede the UNMAP. So an UNMAP carries
 * the ring's position before the call, and removes only older ranges. An ALLOC removes all ranges
 * that it overlaps (MAP_FIXED).
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_RANGES_H
#define HEAPPROFD_CLIENT_HEAPS_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct unwind_registers;

/* What ranges_leave() needs from before the call. */
struct range_call {
    uint64_t session; /* identifies the session; 0: the call is not counted */
    uint64_t before;  /* ring_control.reserved */
};

/* Read the page size. Idempotent. */
void ranges_init(void);

/* Call it before the real function. Joins a session if one is due. */
struct range_call ranges_enter(const struct unwind_registers *caller);

/* Call it after the real function has succeeded, with the unmapped and the mapped range; either may
 * be empty. Lengths are rounded up to pages. Keeps errno. */
void ranges_leave(const struct range_call *call, uintptr_t unmapped, size_t unmapped_bytes,
                  uintptr_t mapped, size_t mapped_bytes, const struct unwind_registers *caller);

size_t ranges_round_up(size_t bytes);

#endif
