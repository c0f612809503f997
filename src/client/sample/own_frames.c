/* SPDX-License-Identifier: Apache-2.0 */
/* Recognize this library's code by the linker's marks of its start and end. An attached client
 * knows the other library's from its parameters. */
#include "client/sample/own_frames.h"

#include <stddef.h>

#ifdef HEAPPROFD_ATTACHED

static inline bool is_own(uint64_t frame)
{
    return frame - heapprofd_attach_params.preloaded < heapprofd_attach_params.preloaded_bytes;
}

#else

extern __attribute__((visibility("hidden"))) const char __ehdr_start[], etext[];

uint32_t own_frames_are_expected;

static inline bool is_own(uint64_t frame)
{
    return frame - (uintptr_t)__ehdr_start < (uintptr_t)etext - (uintptr_t)__ehdr_start;
}

#endif

void own_frames_remove(struct unwind_walk *walk, uint64_t *frames, uintptr_t *places)
{
    unsigned kept = 0, count = walk->count, proven = walk->proven;
    while (kept < count && !is_own(frames[kept]))
        kept++;
    if (likely(kept == count))
        return;
    for (unsigned i = kept; i < count; i++) {
        if (is_own(frames[i])) {
            walk->proven -= i < proven;
            continue;
        }
        frames[kept] = frames[i];
        if (places != NULL)
            places[kept] = places[i];
        kept++;
    }
    if (places != NULL)
        places[kept] = places[count];
    walk->count = kept;
}
