/* SPDX-License-Identifier: Apache-2.0 */
/* Merge the frames of a finished walk into the remembered ones. */
#include "client/unwind/unwind_memory.h"

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
    for (unsigned i = 0; i < taken; i++)
        memory->steps[kept + 1 + i] = memory->fresh[(noted - 1 - i) % UNWIND_MEMORY_FRAMES];
    memory->count = kept + taken;
    barrier_signal();
    memory->generation = (uint64_t)generation + 1;
}
