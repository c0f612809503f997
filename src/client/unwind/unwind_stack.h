/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the stack without touching unmapped memory.
 *
 * A thread's home stack reaches from the stack pointer to a known high end: the end of the
 * initial stack, or in other threads the control block that the C library puts on top of the stack.
 * Once that range was checked to be readable without a hole, it is read directly. Other stacks
 * (sigaltstack, fibers) are copied in small chunks through the kernel. If the kernel may not be
 * asked to copy (seccomp), only those parts of them are read that cannot vanish.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_STACK_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unwind.h"
#include "wire/barrier.h"

/* Small: the chunk is on the walked stack itself, which may have only 16 KiB. */
#define UNWIND_CHUNK_BYTES 512u

struct unwind_stack {
    uintptr_t low, high; /* readable directly; both 0: nothing */
    uintptr_t chunk_low, chunk_high;
    struct unwind_stack_bounds *bounds;
    uint64_t chunk[UNWIND_CHUNK_BYTES / 8];
};

/* Call it once, before the first walk, best in the initial thread. stack_end: an address in the
 * last page of the initial stack; 0: unknown. */
void unwind_stack_init(uintptr_t stack_end);

/* Find or extend the thread's home stack, if sp is on it. Return whether the range grew. */
bool unwind_stack_find_home(struct unwind_stack_bounds *bounds, uintptr_t sp);

/* Find the stack of an sp that is not in the known part of the home stack. */
void unwind_stack_find(struct unwind_stack *stack, uintptr_t sp, bool innermost);

/* Begin with the stack that contains sp. Call it again when a walk moves to another stack.
 * innermost: sp is the stack pointer of the frame that called us. */
static inline __attribute__((always_inline)) void unwind_stack_open(struct unwind_stack *stack,
                                                                    uintptr_t sp, bool innermost)
{
    stack->chunk_low = stack->chunk_high = 0;
    stack->low = stack->bounds->low;
    stack->high = stack->bounds->high;
    if (unlikely(sp < stack->low || sp >= stack->high))
        unwind_stack_find(stack, sp, innermost);
}

/* Read the 8 bytes at `address`. Return false if they cannot be read. */
bool unwind_stack_read(struct unwind_stack *stack, uintptr_t address, uint64_t *value);

/* Read an address that the walk has proven to be inside [low, high). The address
 * sanitizer would reject reads of the stack's red zones. */
static inline __attribute__((always_inline, no_sanitize("address"))) uint64_t
unwind_stack_load(uintptr_t address)
{
    uint64_t value;
    __builtin_memcpy(&value, (const void *)address, sizeof(value));
    return value;
}

#endif
