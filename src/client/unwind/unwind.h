/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the calling thread's stack, in the thread itself, at once.
 *
 * Allocates nothing, takes no lock, makes no system call when warm, reads no
 * memory that might not be there. Safe in a signal handler that interrupted
 * another walk of the same thread.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Deeper stacks lose their outer frames; the stack is marked as truncated. */
#define UNWIND_FRAMES_MAX 1024u

/* Registers of the hook's caller, as they will be when the hook has returned:
 * filled by the entry code in arch/<cpu>/. */
struct unwind_registers;
struct unwind_memory;
struct unwind_rest;

/* Where a thread's own stack is known to be readable; one per thread, zeroed
 * at first, kept by the caller between walks. */
struct unwind_stack_bounds {
    uintptr_t low, high;           /* looked at, and readable without a hole */
    uintptr_t away_low, away_high; /* looked at last, and not connected to it */
};

/* Why a walk ended. Values are on the wire (record_stack.error). */
enum unwind_stop {
    UNWIND_OUTERMOST = 0,        /* a frame without return address, as the ABI marks it */
    UNWIND_TRUNCATED = 1,        /* UNWIND_FRAMES_MAX frames */
    UNWIND_NO_RULE = 2,          /* code without CFI whose frame pointer leads nowhere */
    UNWIND_BAD_CFI = 3,          /* CFI that does not parse */
    UNWIND_UNREADABLE_STACK = 4, /* a slot lies outside readable memory */
    UNWIND_NO_PROGRESS = 5,      /* the stack pointer did not move outwards */
    UNWIND_LEFT = 6,             /* others may know how to go on; never in a record_stack */
    UNWIND_NOT_LEFT = 7,         /* as UNWIND_NO_RULE, but others were not asked */
};

struct unwind_walk {
    unsigned count;        /* frames written */
    enum unwind_stop stop; /* why it ended there */
    uint64_t hash;         /* of the frames and of the module generation; never 0 */
    /* By CFI to the outermost frame, and no signal's among them: on this stack the thread is in
     * no handler. */
    bool uninterrupted;
};

/*
 * Writes the pcs of the callers, innermost first, to frames[0..max). Each lies
 * inside its call instruction (return address - 1 on x86-64, - 4 on aarch64);
 * behind a signal frame it is the exact interrupted pc. memory (unwind_memory.h), zeroed
 * at first, is used by one walk at a time, best by the same thread.
 */
struct unwind_walk unwind_callstack(const struct unwind_registers *registers,
                                    struct unwind_stack_bounds *bounds,
                                    struct unwind_memory *memory, uint64_t *frames, unsigned max);

/* The same, but where rest (unfinished_walk.h) says so it stops at code without CFI, as
 * UNWIND_LEFT. */
struct unwind_walk unwind_callstack_until(const struct unwind_registers *registers,
                                          struct unwind_stack_bounds *bounds,
                                          struct unwind_memory *memory, uint64_t *frames,
                                          unsigned max, struct unwind_rest *rest);

/* Maps the rule cache (private, wiped on fork). Called once, before the first
 * walk; 0 or a negative errno. */
int unwind_init(void);

#endif
