/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a walk through warm frames, kept in registers, and its way through remembered ones.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_WARM_WALK_H
#define HEAPPROFD_CLIENT_UNWIND_WARM_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/frame_rule.h"
#include "client/unwind/unwind_memory.h"
#include "wire/barrier.h"

struct warm_walk {
    struct rule_frame frame;
    const struct unwind_step *end;   /* of the remembered frames */
    const struct unwind_step *known; /* the innermost remembered frame not yet passed */
    uintptr_t known_sp;              /* its stack pointer; UINTPTR_MAX: none */
    struct unwind_step *next;        /* where the frame will be noted, in memory->fresh */
    const struct unwind_step *limit; /* the end of fresh[], or where frames[] will be full */
    uintptr_t full; /* where frames[] would be full if fresh[] was endless, since warm_begin() */
};

/* Note the next frames from the begin of fresh[]. There is room for `room` of them in frames[]. */
static inline __attribute__((always_inline)) void
warm_begin(struct warm_walk *warm, struct unwind_memory *memory, unsigned room)
{
    warm->next = memory->fresh;
    warm->limit = memory->fresh + (room < UNWIND_MEMORY_FRAMES ? room : UNWIND_MEMORY_FRAMES);
    warm->full = (uintptr_t)memory->fresh + room * sizeof(*warm->next);
}

/* Compare with the remembered frames from `known` outwards. */
static inline __attribute__((always_inline)) void warm_expect(struct warm_walk *warm,
                                                              const struct unwind_step *known)
{
    warm->known = known;
    warm->known_sp = known > warm->end ? known->sp : UINTPTR_MAX;
}

static inline __attribute__((always_inline)) void warm_note(const struct warm_walk *warm)
{
    warm->next->address = warm->frame.address;
    warm->next->sp = warm->frame.sp;
    warm->next->fp = warm->frame.fp;
}

/* Return whether the walk has reached the state of a remembered frame, which is then `known`, and
 * frames[] has room for it, those outside it and one more. */
static inline __attribute__((always_inline)) bool warm_meets(struct warm_walk *warm, uintptr_t high)
{
    const struct unwind_step *step = warm->known;
    while (step > warm->end && step->sp < warm->frame.sp)
        step--;
    warm_expect(warm, step);
    return step > warm->end &&
           unwind_memory_is(step, warm->frame.address, warm->frame.sp, warm->frame.fp) &&
           warm->end->sp <= high &&
           (uintptr_t)warm->next + ((uintptr_t)step - (uintptr_t)warm->end) < warm->full;
}

/* Go outwards from `known` as long as the remembered frames still hold. Return whether all do. If
 * not, note those that do again; if they do not fit fresh[], none is passed. */
static inline __attribute__((always_inline)) bool warm_recall(struct warm_walk *warm)
{
    const struct unwind_step *held = warm->known, *step = unwind_memory_follow(held);
    if (step > warm->end && held - step > warm->limit - warm->next) {
        warm_expect(warm, step - 1); /* the frames up to there would end here, too */
        return false;
    }
    warm->frame = (struct rule_frame){step->address, step->sp, step->fp};
    if (step == warm->end)
        return true;
    for (; held > step; held--)
        *warm->next++ = unwind_memory_noted(held);
    warm_expect(warm, step - 1);
    return false;
}

#endif
