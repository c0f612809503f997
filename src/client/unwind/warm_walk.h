/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a walk through warm frames, kept in registers, and its way through remembered ones.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_WARM_WALK_H
#define HEAPPROFD_CLIENT_UNWIND_WARM_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "client/unwind/frame_rule.h"
#include "client/unwind/unwind_memory.h"
#include "client/unwind/walk_hash.h"
#include "wire/barrier.h"

struct warm_walk {
    struct rule_frame frame;
    uint64_t *frames;
    uintptr_t *places;
    unsigned count, max;
    unsigned recalled_at, recalled; /* see struct unwind_walk */
    uint64_t hash, power;
    struct unwind_memory *memory;
    const struct unwind_step *known; /* the innermost remembered frame not yet passed */
    uintptr_t known_sp;              /* its stack pointer; UINTPTR_MAX: none */
    unsigned noted;                  /* frames noted for the next walk */
};

/* Return what the frame adds to the hash before it is multiplied by its power. */
static inline __attribute__((always_inline)) uint64_t warm_write(struct warm_walk *warm,
                                                                 uint64_t pc)
{
    uint64_t sum = walk_hash_pc(pc);
    warm->frames[warm->count++] = pc;
    warm->hash += sum * warm->power;
    warm->power *= WALK_HASH_STEP;
    return sum;
}

/* Compare with the remembered frames from `known` outwards. */
static inline void warm_expect(struct warm_walk *warm, const struct unwind_step *known)
{
    warm->known = known;
    warm->known_sp = known > warm->memory->steps ? known->sp : UINTPTR_MAX;
}

/* Add the remembered frames from `known` to the outermost, without writing them. */
static inline void warm_skip(struct warm_walk *warm)
{
    unsigned held = (unsigned)(warm->known - warm->memory->steps);
    warm->recalled_at = warm->count;
    warm->recalled = held;
    warm->count += held;
    warm->hash += warm->known->sum * warm->power;
    warm->power *= unwind_memory_powers[held];
}

/* The same, and write them and their places. */
static inline void warm_skip_noting(struct warm_walk *warm)
{
    const struct unwind_step *steps = warm->memory->steps;
    uint64_t *frames = warm->frames + warm->count;
    uintptr_t *places = warm->places + warm->count;
    for (const struct unwind_step *held = warm->known; held > steps; held--) {
        *frames++ = held->address - ARCH_CALL_BYTES;
        *places++ = held->sp;
    }
    warm_skip(warm);
    warm->recalled = 0;
}

/* If the walk has reached a remembered state, go outwards as long as the remembered frames still
 * hold. Return whether they held to the end. `noting_places`: write all frames, with places. */
static inline __attribute__((always_inline)) bool warm_recall(struct warm_walk *warm,
                                                              uintptr_t high, bool noting_places)
{
    const struct unwind_step *steps = warm->memory->steps, *step = warm->known, *held;
    while (step > steps && step->sp < warm->frame.sp)
        step--;
    warm_expect(warm, step);
    if (step == steps || steps[0].sp > high || (size_t)(step - steps) >= warm->max - warm->count ||
        !unwind_memory_is(step, warm->frame.address, warm->frame.sp, warm->frame.fp))
        return false;

    while (step > steps && unwind_memory_holds(step))
        step--;
    warm->frame = (struct rule_frame){step->address, step->sp, step->fp};
    if (step == steps) {
        if (noting_places)
            warm_skip_noting(warm);
        else
            warm_skip(warm);
        return true;
    }
    for (held = warm->known; held > step; held--) {
        if (noting_places)
            warm->places[warm->count] = held->sp;
        warm_write(warm, held->address - ARCH_CALL_BYTES);
    }
    for (held = warm->known; held > step; held--) {
        struct unwind_step again = unwind_memory_noted(held);
        unwind_memory_note(warm->memory, warm->noted++, &again);
    }
    warm_expect(warm, step - 1);
    return false;
}

#endif
