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
 * A walk notes its other frames in fresh[], and adds them to the remembered ones at its end. So
 * their hashes are summed, and their pcs are written, from there.
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

/* Of deeper stacks, only the outermost frames are remembered. */
#define UNWIND_MEMORY_FRAMES 128u

struct unwind_step {
    uint64_t address;
    uintptr_t sp, fp;
    uintptr_t return_slot; /* address of its return address */
    /* Address of its caller's frame pointer; 0 if that is the same as its own. In steps[], the
     * address of `fp` instead of 0: the check of a remembered frame needs no branch. */
    uintptr_t fp_slot;
    uint64_t sum; /* only in steps[]: what it and the frames outside it add to the hash */
};

struct unwind_memory {
    uint64_t generation; /* module_generation() of the rules, plus one; 0: nothing is remembered */
    uint32_t count;
    uint32_t has_outermost; /* 1: the end is the stack's outermost frame */
    /* Outermost first, after two others: a guard, which is not the caller of the end, and the end,
     * which is the state after the remembered frames were unwound. */
    struct unwind_step steps[2 + UNWIND_MEMORY_FRAMES];
    /* Frames of the present walk, innermost first. If it is full, the walk begins it again. */
    struct unwind_step fresh[UNWIND_MEMORY_FRAMES];
};

/* Powers of WALK_HASH_STEP, for a full fresh[] and as many remembered frames. */
extern __attribute__((visibility("hidden")))
uint64_t unwind_memory_powers[2 * UNWIND_MEMORY_FRAMES + 1];

/* Compute the powers. Call it once, before the first walk. */
void unwind_memory_init(void);

/* Return the end, inside which the remembered frames follow. */
static inline const struct unwind_step *unwind_memory_end(const struct unwind_memory *memory)
{
    return &memory->steps[1];
}

/* Return the innermost remembered frame. If nothing is remembered, return the end. */
static inline const struct unwind_step *unwind_memory_top(const struct unwind_memory *memory,
                                                          uint32_t generation)
{
    bool holds = memory->generation == (uint64_t)generation + 1;
    return unwind_memory_end(memory) + (holds ? memory->count : 0);
}

static inline bool unwind_memory_is(const struct unwind_step *step, uint64_t address, uintptr_t sp,
                                    uintptr_t fp)
{
    return step->sp == sp && step->address == address && step->fp == fp;
}

/* Go outwards from a frame as long as the frames have the callers that are remembered. Return the
 * first one that has another caller, or the end. The slots must be readable: they lie between the
 * frame's stack pointer and the end's. */
const struct unwind_step *unwind_memory_follow(const struct unwind_step *step);

/* Return a remembered frame as its walk noted it, but for the sum. */
static inline struct unwind_step unwind_memory_noted(const struct unwind_step *step)
{
    struct unwind_step noted = *step;
    if (noted.fp_slot == (uintptr_t)&step->fp)
        noted.fp_slot = 0;
    return noted;
}

/* Return the sum of a frame and those outside it, whose own sum is `outside`. */
static inline uint64_t unwind_memory_sum(const struct unwind_step *step, uint64_t outside)
{
    return walk_hash_pc(step->address - ARCH_CALL_BYTES) + WALK_HASH_STEP * outside;
}

/* Write the pcs of the `count` outermost remembered frames, and of the end if that is the outermost
 * of the stack, to frames[], innermost first. */
void unwind_memory_write(const struct unwind_memory *memory, uint64_t *frames, unsigned count);

/* Forget all frames, and set the end. Its address, sp and fp are given. */
void unwind_memory_begin(struct unwind_memory *memory, const struct unwind_step *end,
                         bool is_outermost);

/*
 * Remember a walk: keep the `kept` outermost frames, and add the frames fresh[0..noted) inside
 * them. If there is no room for all, the innermost are left out. `again`: fresh[] was full, and was
 * begun again; its rest, without fresh[noted], is inside the others. If no frame is kept, call
 * unwind_memory_begin() before. Return the sum of fresh[0..noted) and the frames outside them.
 */
uint64_t unwind_memory_keep(struct unwind_memory *memory, unsigned kept, unsigned noted, bool again,
                            uint32_t generation);

#endif
