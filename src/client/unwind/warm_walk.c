/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm part of a walk: frames that the last walk remembered, and frames whose rules are cached.
 * It keeps only the stack pointer, the frame pointer and the return address, in registers.
 */
#include "client/unwind/unwind.h"
#include "client/unwind/unwind_rule.h"
#include "client/unwind/walk.h"
#include "wire/barrier.h"

/* Its parts are one loop: a call for each frame would cost as much as the frame. */
#define INLINED static inline __attribute__((always_inline))

/* --- remembered frames --- */

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
INLINED void warm_begin(struct warm_walk *warm, struct unwind_memory *memory, unsigned room)
{
    warm->next = memory->fresh;
    warm->limit = memory->fresh + (room < UNWIND_MEMORY_FRAMES ? room : UNWIND_MEMORY_FRAMES);
    warm->full = (uintptr_t)memory->fresh + room * sizeof(*warm->next);
}

/* Compare with the remembered frames from `known` outwards. */
INLINED void warm_expect(struct warm_walk *warm, const struct unwind_step *known)
{
    warm->known = known;
    warm->known_sp = known > warm->end ? known->sp : UINTPTR_MAX;
}

INLINED void warm_note(const struct warm_walk *warm)
{
    warm->next->address = warm->frame.address;
    warm->next->sp = warm->frame.sp;
    warm->next->fp = warm->frame.fp;
}

/* Return whether the walk has reached the state of a remembered frame, which is then `known`, and
 * frames[] has room for it, those outside it and one more. */
INLINED bool warm_meets(struct warm_walk *warm, uintptr_t high)
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
INLINED bool warm_recall(struct warm_walk *warm)
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

/* --- the end of the warm part --- */

/* Write the frames fresh[0..count), with their places if they are wanted. */
static void walk_write_fresh(struct walk *walk, unsigned count)
{
    const struct unwind_step *fresh = walk->memory->fresh;
    for (unsigned i = 0; i < count; i++) {
        if (walk->places != NULL)
            walk->places[walk->count] = fresh[i].sp;
        walk->frames[walk->count++] = fresh[i].address - ARCH_CALL_BYTES;
    }
}

/* Write the `count` outermost remembered frames, as unwind_memory_write(), with their places. */
static inline void walk_write_with_places(struct walk *walk, unsigned count)
{
    const struct unwind_memory *memory = walk->memory;
    const struct unwind_step *step = unwind_memory_end(memory) + count - memory->has_outermost;
    uint64_t *frames = walk->frames + walk->count;
    uintptr_t *places = walk->places + walk->count;
    for (unsigned i = 0; i < count; i++, step--) {
        frames[i] = step->address - ARCH_CALL_BYTES;
        places[i] = step->sp;
    }
    walk->count += count;
}

/* Write fresh[], which is full, and its part of the hash. */
static __attribute__((noinline)) void walk_spill(struct walk *walk)
{
    const struct unwind_step *fresh = walk->memory->fresh;
    uint64_t sum = 0;
    for (unsigned i = UNWIND_MEMORY_FRAMES; i > 0; i--)
        sum = unwind_memory_sum(&fresh[i - 1], sum);
    walk->hash += sum * walk->power;
    walk->power *= unwind_memory_powers[UNWIND_MEMORY_FRAMES];
    walk_write_fresh(walk, UNWIND_MEMORY_FRAMES);
}

/* Add the noted frames, those that were kept and the outermost one to the walk, and remember them.
 * They are written later if that is possible: see struct unwind_walk. */
INLINED void walk_keep(struct walk *walk, unsigned kept, unsigned noted, bool again,
                       bool noting_places)
{
    struct unwind_memory *memory = walk->memory;
    unsigned all = kept + noted;
    uint64_t sum;
    if (noted > 0 || again || kept == 0) {
        sum = unwind_memory_keep(memory, kept, noted, again, walk->generation);
    } else {
        sum = unwind_memory_end(memory)[kept].sum;
        memory->count = kept;
    }
    if (unlikely(all > UNWIND_MEMORY_FRAMES)) {
        walk_write_fresh(walk, all - UNWIND_MEMORY_FRAMES);
        all = UNWIND_MEMORY_FRAMES;
    }
    walk->interrupted = false;
    walk->hash += sum * walk->power;
    walk->power *= unwind_memory_powers[kept + noted];
    all += memory->has_outermost;
    if (noting_places) {
        walk_write_with_places(walk, all);
        return;
    }
    walk->recalled_at = walk->count;
    walk->recalled = all;
    walk->count += all;
}

/* See walk_warm(). `noting_places` is a constant: without places a frame costs nothing more. */
INLINED int walk_warm_noting(struct walk *walk, bool noting_places)
{
    struct unwind_memory *memory = walk->memory;
    struct warm_walk warm = {.frame = walk->frame, .end = unwind_memory_end(memory)};
    const uint64_t *table = rule_table;
    uint64_t generation_bits = walk->generation_bits;
    uintptr_t high = walk->stack.high;
    unsigned kept = 0; /* outermost remembered frames that the walk confirmed */
    uint32_t rule = 0;
    bool again = false;

    warm_begin(&warm, memory, walk->max - walk->count);
    warm_expect(&warm, unwind_memory_top(memory, walk->generation));
    for (;;) {
        if (unlikely(warm.frame.sp >= warm.known_sp) && warm_meets(&warm, high) &&
            warm_recall(&warm)) {
            kept = (unsigned)(warm.known - warm.end);
            rule = 0;
            break;
        }
        if (unlikely(warm.next == warm.limit)) {
            if ((uintptr_t)warm.next == warm.full)
                break;
            walk_spill(walk);
            warm_begin(&warm, memory, walk->max - walk->count);
            again = true;
        }
        struct rule_slots slots;
        rule = rule_find(table, warm.frame.address, generation_bits);
        warm_note(&warm);
        if (unlikely(!(rule & RULE_IS_PLAIN)) ||
            unlikely(!arch_rule_apply(rule, &warm.frame, high, NULL, &slots)))
            break;
        warm.next->return_slot = slots.return_address;
        warm.next->fp_slot = slots.fp;
        warm.next++;
    }
    walk->frame = warm.frame;
    unsigned noted = (unsigned)(warm.next - memory->fresh);
    if (kept + noted == 0 && !again)
        return WALK_GOES_ON;
    const struct unwind_step after = {warm.frame.address, warm.frame.sp, warm.frame.fp, 0, 0, 0};
    if (kept == 0)
        unwind_memory_begin(memory, &after, (rule & RULE_MASK) == RULE_OUTERMOST);
    walk_keep(walk, kept, noted, again, noting_places);
    return memory->has_outermost ? UNWIND_OUTERMOST : WALK_GOES_ON;
}

int walk_warm(struct walk *walk)
{
    return walk_warm_noting(walk, false);
}

int walk_warm_with_places(struct walk *walk)
{
    return walk_warm_noting(walk, true);
}
