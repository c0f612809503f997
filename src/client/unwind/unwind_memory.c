/* SPDX-License-Identifier: Apache-2.0 */
/* Merge the frames of a finished walk into the remembered ones, and write remembered frames. */
#include "client/unwind/unwind_memory.h"

#include <stddef.h>

uint64_t unwind_memory_powers[2 * UNWIND_MEMORY_FRAMES + 1];

void unwind_memory_init(void)
{
    uint64_t power = 1;
    for (unsigned i = 0; i <= 2 * UNWIND_MEMORY_FRAMES; i++, power *= WALK_HASH_STEP)
        unwind_memory_powers[i] = power;
}

static inline bool holds(const struct unwind_step *step)
{
    const struct unwind_step *caller = step - 1;
    return arch_strip(unwind_stack_load(step->return_slot)) == caller->address &&
           unwind_stack_load(step->fp_slot) == caller->fp;
}

/* Aligned, so that its placement in the library does not change its cost. */
__attribute__((noinline, aligned(64))) const struct unwind_step *
unwind_memory_follow(const struct unwind_step *step)
{
    while (likely(holds(step)))
        step--;
    return step;
}

void unwind_memory_write(const struct unwind_memory *memory, uint64_t *frames, unsigned count)
{
    const struct unwind_step *step = unwind_memory_end(memory) + count - memory->has_outermost;
    for (unsigned i = 0; i < count; i++)
        frames[i] = step[-(ptrdiff_t)i].address - ARCH_CALL_BYTES;
}

/* Remember frames until there is no room: from[-1], the outermost, first, and *begin last. `step`
 * is the frame outside them. Return the innermost remembered frame. Set *left to the end of those
 * that found no room. */
static inline struct unwind_step *unwind_memory_add(struct unwind_memory *memory,
                                                    struct unwind_step *step,
                                                    const struct unwind_step *begin,
                                                    const struct unwind_step *from,
                                                    const struct unwind_step **left)
{
    uint64_t sum = step->sum;
    while (from > begin && step < &memory->steps[1 + UNWIND_MEMORY_FRAMES]) {
        *++step = *--from;
        step->sum = sum = unwind_memory_sum(step, sum);
        if (step->fp_slot == 0)
            step->fp_slot = (uintptr_t)&step->fp;
    }
    *left = from;
    return step;
}

void unwind_memory_begin(struct unwind_memory *memory, const struct unwind_step *end,
                         bool is_outermost)
{
    struct unwind_step *guard = &memory->steps[0], *begun = &memory->steps[1];
    memory->generation = 0;
    barrier_signal();
    memory->has_outermost = is_outermost;
    *begun = *end;
    begun->sum = is_outermost ? unwind_memory_sum(end, 0) : 0;
    /* The end's caller would return to what is in this slot, 0. */
    guard->address = 1;
    guard->fp = 0;
    begun->return_slot = begun->fp_slot = (uintptr_t)&guard->fp;
}

uint64_t unwind_memory_keep(struct unwind_memory *memory, unsigned kept, unsigned noted, bool again,
                            uint32_t generation)
{
    struct unwind_step *step = &memory->steps[1 + kept];
    const struct unwind_step *fresh = memory->fresh, *left;

    memory->generation = 0;
    barrier_signal();
    step = unwind_memory_add(memory, step, fresh, fresh + noted, &left);
    uint64_t sum = step->sum;
    while (left > fresh)
        sum = unwind_memory_sum(--left, sum);
    if (again && noted < UNWIND_MEMORY_FRAMES)
        step =
            unwind_memory_add(memory, step, fresh + noted + 1, fresh + UNWIND_MEMORY_FRAMES, &left);
    memory->count = (uint32_t)(step - unwind_memory_end(memory));
    barrier_signal();
    memory->generation = (uint64_t)generation + 1;
    return sum;
}
