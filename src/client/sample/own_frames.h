/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of this library on the stacks of samples. A hook ends in a jump to the real function, so
 * stacks have such frames only while the library stands between the program and an allocator, as
 * between CPython and pymalloc (heaps/python_object.h); and in an attached client those of the
 * dormant library, a few of whose calls take a slower path.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_OWN_FRAMES_H
#define HEAPPROFD_CLIENT_SAMPLE_OWN_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/system.h"
#include "client/unwind/unwind.h"
#ifdef HEAPPROFD_ATTACHED
#include "client/attached.h"
#endif

#if defined(HEAPPROFD_NO_HOOKS)

static inline bool own_frames_expected(void)
{
    return false;
}

static inline void own_frames_expect(void) {}

#elif defined(HEAPPROFD_ATTACHED)

static inline bool own_frames_expected(void)
{
    return heapprofd_attach_params.preloaded_bytes != 0;
}

static inline void own_frames_expect(void) {}

#else

extern __attribute__((visibility("hidden"))) uint32_t own_frames_are_expected;

static inline bool own_frames_expected(void)
{
    return load_relaxed(&own_frames_are_expected) != 0;
}

/* Samples may have such frames from now on. Call it in each function that calls an allocator in the
 * middle. */
static inline void own_frames_expect(void)
{
    if (unlikely(!own_frames_expected()))
        store_relaxed(&own_frames_are_expected, 1);
}

#endif

/* Remove this library's frames from the walk, and their places (see unwind_callstack()) if these
 * are not NULL. All frames must have been written. */
void own_frames_remove(struct unwind_walk *walk, uint64_t *frames, uintptr_t *places);

#endif
