/*
 * Which frames of a profile's stacks are folded: those that known_frames.h knows. What a JIT
 * compiler or an interpreter tells of is always the program's own.
 */
#ifndef HEAPPROFD_PROFILE_FOLDING_H
#define HEAPPROFD_PROFILE_FOLDING_H

#include "profile/known_frames.h"
#include "profile/profile.h"

struct folding {
    const struct known_frames **frames; /* by frame; NULL: the program's own */
};

/* 0 or -ENOMEM. */
int folding_make(struct folding *folding, const struct profile *profile);
void folding_clear(struct folding *folding);

/* What the frame is folded as; NULL: it is the program's own, or nothing is folded (folding NULL).
 */
static inline const struct known_frames *folding_of(const struct folding *folding, uint32_t frame)
{
    return folding == NULL ? NULL : folding->frames[frame];
}

/*
 * The callsite that a stack is charged to: of the innermost frame that is the program's own. Where
 * none is, of the innermost that does more than allocate; else of the outermost.
 */
uint32_t folding_charge(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

/* What a row shows of a stack first: the callsite that it is charged to, or, where that has no
 * name, the function of a library that it called. */
uint32_t folding_head(const struct folding *folding, const struct profile *profile,
                      uint32_t callsite);

/* Callers that a row shows. */
#define FOLDING_CALLERS 4

/* The next callsite outwards whose frame is the program's own; PROFILE_NONE: there is none. */
uint32_t folding_caller(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

#endif
