/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread's last walk found, so that the next one need not find it again:
 * successive stacks share most of their outer frames.
 *
 * A remembered frame is the walk's whole state in it (the address that returns
 * to it, the stack pointer, the frame pointer) and the places where the rule of
 * its code found the state of its caller. The rule depends on the address alone.
 * So where a walk comes into the same state, and those places still hold what
 * they held, the caller's state is the same, and so on outwards: this is no
 * guess. Checking that is two loads a frame which wait for nothing, while rules
 * have to be looked up one after the other, all over a table.
 *
 * Whoever walks owns the memory for that time. A walk that is left by a jump
 * leaves it empty or whole.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_MEMORY_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "client/unwind/unwind_stack.h"
#include "wire/barrier.h"

/* Deeper stacks keep their outermost frames. A power of two. */
#define UNWIND_MEMORY_FRAMES 128u

struct unwind_step {
    uint64_t address;
    uintptr_t sp, fp;
    uintptr_t return_slot; /* where its return address lay */
    uintptr_t fp_slot;     /* where its caller's frame pointer lay; 0: its own is its caller's */
};

struct unwind_memory {
    uint64_t generation; /* module_generation() of the rules, plus one; 0: nothing is remembered */
    uint32_t count;
    /* Outermost first, from 1 on; [0] is the state behind the outermost. */
    struct unwind_step steps[1 + UNWIND_MEMORY_FRAMES];
    /* The walk under way: innermost first, the last UNWIND_MEMORY_FRAMES of them. */
    struct unwind_step fresh[UNWIND_MEMORY_FRAMES];
};

/* The innermost remembered frame; &steps[0] if there is none. */
static inline const struct unwind_step *unwind_memory_top(const struct unwind_memory *memory,
                                                          uint32_t generation)
{
    return &memory->steps[memory->generation == (uint64_t)generation + 1 ? memory->count : 0];
}

static inline bool unwind_memory_is(const struct unwind_step *step, uint64_t address, uintptr_t sp,
                                    uintptr_t fp)
{
    return step->sp == sp && step->address == address && step->fp == fp;
}

/* Whether the frame's caller is still the one that was remembered beside it. Its places must
 * be readable: they lie between its stack pointer and that of the state behind the outermost. */
static inline __attribute__((always_inline)) bool
unwind_memory_holds(const struct unwind_step *step)
{
    const struct unwind_step *caller = step - 1;
    uintptr_t fp_slot = step->fp_slot != 0 ? step->fp_slot : (uintptr_t)&step->fp;
    return arch_strip(unwind_stack_load(step->return_slot)) == caller->address &&
           unwind_stack_load(fp_slot) == caller->fp;
}

static inline void unwind_memory_note(struct unwind_memory *memory, unsigned number,
                                      const struct unwind_step *step)
{
    memory->fresh[number % UNWIND_MEMORY_FRAMES] = *step;
}

/*
 * Remembers a walk: the `kept` outermost frames as they were, inside of them the
 * frames 0 to noted - 1 that were noted. end: the state behind the outermost, if
 * none was kept.
 */
void unwind_memory_keep(struct unwind_memory *memory, unsigned kept, unsigned noted,
                        const struct unwind_step *end, uint32_t generation);

#endif
