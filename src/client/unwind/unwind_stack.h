/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the stack without ever touching memory that is not there.
 *
 * A thread's home stack reaches from the stack pointer to a known high end (the
 * initial stack's end, or another thread's control block, which glibc puts on top of
 * its stack): once that range is known to be readable without a hole it is read
 * directly. Any other stack (sigaltstack, fibers, stacks that the program made)
 * is copied in small chunks through the kernel.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_STACK_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unwind.h"

/* Small: it lies on the very stack that is walked, which may be 16 KiB. */
#define UNWIND_CHUNK_BYTES 512u

struct unwind_stack {
    uintptr_t low, high; /* readable directly; both 0: nothing */
    uintptr_t chunk_low, chunk_high;
    struct unwind_stack_bounds *bounds;
    uint64_t chunk[UNWIND_CHUNK_BYTES / 8];
};

/* Once, before the first walk, best in the initial thread. */
void unwind_stack_init(void);

/* Begins with the stack that holds sp; called again when a walk moves to another. */
void unwind_stack_open(struct unwind_stack *stack, uintptr_t sp);

/* The 8 bytes at address; false: they cannot be read. */
bool unwind_stack_read(struct unwind_stack *stack, uintptr_t address, uint64_t *value);

/* Reads that the walk has proven to be inside [low, high). The address sanitizer
 * does not know that the stack's red zones may be looked at. */
static inline __attribute__((always_inline, no_sanitize("address"))) uint64_t
unwind_stack_load(uintptr_t address)
{
    uint64_t value;
    __builtin_memcpy(&value, (const void *)address, sizeof(value));
    return value;
}

#endif
