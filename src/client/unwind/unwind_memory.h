/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a thread's last walk. Successive stacks share most of their outer
 * frames, so the next walk need not find them again.
 *
 * A remembered frame is the walk's whole state (return address, stack pointer,
 * frame pointer) and the stack slots in which the rule of its code found the
 * caller's state. The rule depends on the address alone. So if a walk reaches the
 * same state, and the slots still hold the same values, the caller's state is the
 * same, and so on outwards. This is exact, not a guess. The check takes two
 * independent loads a frame, while rules must be looked up one after the other
 * all over a table.
 *
 * A remembered frame also has the sum that it and all frames outside it contribute to a walk's
 * hash. If all of these still hold, the walk needs neither their addresses nor their hashes.
 *
 * A walk owns the memory while it runs. If a signal handler jumps out of a walk,
 * the memory is empty or complete.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_MEMORY_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "client/unwind/unwind_stack.h"
#include "client/unwind/walk_hash.h"
#include "wire/barrier.h"

/* Of deeper stacks, only the outermost frames are remembered. A power of two. */
#define UNWIND_MEMORY_FRAMES 128u

struct unwind_step {
    uint64_t address;
    uintptr_t sp, fp;
    uintptr_t return_slot; /* address of its return address */
    /* Address of its caller's frame pointer; 0 if that is the same as its own. In steps[], the
     * address of `fp` instead of 0: the check of a remembered frame needs no branch. */
    uintptr_t fp_slot;
    uint64_t sum; /* walk_hash_pc() of it and, in steps[], of the frames outside it */
};

struct unwind_memory {
    uint64_t generation; /* module_generation() of the rules, plus one; 0: nothing is remembered */
    uint32_t count;
    /* Outermost first, from 1 on; [0] is the state after the outermost frame was unwound. */
    struct unwind_step steps[1 + UNWIND_MEMORY_FRAMES];
    /* The present walk's last UNWIND_MEMORY_FRAMES frames, innermost first. */
    struct unwind_step fresh[UNWIND_MEMORY_FRAMES];
};

/* Powers of WALK_HASH_STEP. */
extern __attribute__((visibility("hidden")))
uint64_t unwind_memory_powers[UNWIND_MEMORY_FRAMES + 1];

/* Compute the powers. Call it once, before the first walk. */
void unwind_memory_init(void);

/* Return the innermost remembered frame; &steps[0] if there is none. */
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

/* Return whether the frame's caller is still the remembered one. The slots must be readable: they
 * lie between the frame's stack pointer and that of steps[0]. */
static inline __attribute__((always_inline)) bool
unwind_memory_holds(const struct unwind_step *step)
{
    const struct unwind_step *caller = step - 1;
    return arch_strip(unwind_stack_load(step->return_slot)) == caller->address &&
           unwind_stack_load(step->fp_slot) == caller->fp;
}

/* Return a remembered frame as its walk noted it. */
static inline struct unwind_step unwind_memory_noted(const struct unwind_step *step)
{
    struct unwind_step noted = *step;
    if (noted.fp_slot == (uintptr_t)&step->fp)
        noted.fp_slot = 0;
    noted.sum -= WALK_HASH_STEP * step[-1].sum;
    return noted;
}

static inline void unwind_memory_note(struct unwind_memory *memory, unsigned number,
                                      const struct unwind_step *step)
{
    memory->fresh[number % UNWIND_MEMORY_FRAMES] = *step;
}

/* Write the pcs of the `count` outermost remembered frames to frames[], innermost first. */
void unwind_memory_write(const struct unwind_memory *memory, uint64_t *frames, unsigned count);

/*
 * Remember a walk: keep the `kept` outermost frames, and add the noted frames 0 to
 * noted - 1 inside them. If none was kept, `end` is the state after the outermost.
 */
void unwind_memory_keep(struct unwind_memory *memory, unsigned kept, unsigned noted,
                        const struct unwind_step *end, uint32_t generation);

#endif
