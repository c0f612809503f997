/* SPDX-License-Identifier: Apache-2.0 */
/* Merge the frames of a finished walk into the remembered ones, and write remembered frames. */
#include "client/unwind/unwind_memory.h"

uint64_t unwind_memory_powers[UNWIND_MEMORY_FRAMES + 1];

void unwind_memory_init(void)
{
    uint64_t power = 1;
    for (unsigned i = 0; i <= UNWIND_MEMORY_FRAMES; i++, power *= WALK_HASH_STEP)
        unwind_memory_powers[i] = power;
}

void unwind_memory_write(const struct unwind_memory *memory, uint64_t *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        frames[i] = memory->steps[count - i].address - ARCH_CALL_BYTES;
}

void unwind_memory_keep(struct unwind_memory *memory, unsigned kept, unsigned noted,
                        const struct unwind_step *end, uint32_t generation)
{
    unsigned known = noted < UNWIND_MEMORY_FRAMES ? noted : UNWIND_MEMORY_FRAMES;
    unsigned room = UNWIND_MEMORY_FRAMES - kept;
    unsigned taken = known < room ? known : room;

    memory->generation = 0;
    barrier_signal();
    if (kept == 0)
        memory->steps[0] = *end;
    for (unsigned i = 0; i < taken; i++) {
        struct unwind_step *step = &memory->steps[kept + 1 + i];
        *step = memory->fresh[(noted - 1 - i) % UNWIND_MEMORY_FRAMES];
        step->sum += WALK_HASH_STEP * step[-1].sum;
        if (step->fp_slot == 0)
            step->fp_slot = (uintptr_t)&step->fp;
    }
    memory->count = kept + taken;
    barrier_signal();
    memory->generation = (uint64_t)generation + 1;
}
