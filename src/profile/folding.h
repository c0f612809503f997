/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which frames of a profile's stacks are folded: those in known_frames.h. Functions named
 * by a JIT compiler or an interpreter always belong to the program.
 */
#ifndef HEAPPROFD_PROFILE_FOLDING_H
#define HEAPPROFD_PROFILE_FOLDING_H

#include "profile/known_frames.h"
#include "profile/profile.h"

struct folding {
    const struct known_frames **frames; /* by frame; NULL: a frame of the program */
};

/* Return 0 or -ENOMEM. */
int folding_make(struct folding *folding, const struct profile *profile);
void folding_clear(struct folding *folding);

/* Return the group that the frame is folded into. Return NULL if it is the program's own, or if
 * folding is NULL: then nothing is folded. */
static inline const struct known_frames *folding_of(const struct folding *folding, uint32_t frame)
{
    return folding == NULL ? NULL : folding->frames[frame];
}

/*
 * Return the callsite that a stack is charged to: that of the program's innermost own frame. If the
 * program has no frame on it, use the innermost frame that does more than allocate, or else the
 * outermost frame.
 */
uint32_t folding_charge(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

/* Return the callsite that a row shows first: the one that the stack is charged to or, if that has
 * no name, the library function that it called. */
uint32_t folding_head(const struct folding *folding, const struct profile *profile,
                      uint32_t callsite);

/* Number of callers that a row shows. */
#define FOLDING_CALLERS 4

/* Return the next callsite outwards whose frame is the program's own, or PROFILE_NONE. */
uint32_t folding_caller(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

#endif
