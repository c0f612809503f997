/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which frames of a profile's stacks are folded: those in known_frames.h, and functions
 * without a name that only call the allocator, for several others. Functions named by a JIT
 * compiler or an interpreter always belong to the program.
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
 * program has no frame on it, use the innermost frame that does more than allocate (if it has no
 * name, the next one in its module that has), or else the outermost frame.
 */
uint32_t folding_charge(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

/* Return the callsite that a row shows first: the one that the stack is charged to or, if that has
 * no name, the library function that it called. */
uint32_t folding_head(const struct folding *folding, const struct profile *profile,
                      uint32_t callsite);

/* Return the next callsite outwards whose frame is the program's own, or PROFILE_NONE. */
uint32_t folding_caller(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite);

/*
 * Return the callsite of the run time's function for which the stack's memory is, if the stack is
 * charged to a function of an interpreted or compiled language: the innermost one with a name that
 * does more than allocate. PROFILE_NONE: there is none.
 */
uint32_t folding_run_time(const struct folding *folding, const struct profile *profile,
                          uint32_t callsite);

/* Number of callers that a row shows if a function with a name is among them, or before them. */
#define FOLDING_CALLERS 4
#define FOLDING_STEPS_MAX 16

/*
 * What a row shows of a stack: folding_head() and callers. It goes on to the first function of the
 * program that has a name, however far out. If there is one, frames without a name that follow each
 * other in one module are one step. Rows that show the same steps show the same.
 */
struct folding_row {
    struct folding_step {
        uint32_t callsite; /* of the innermost frame */
        uint32_t nameless; /* number of frames without a name; 0: one frame, shown as it is */
    } steps[FOLDING_STEPS_MAX];
    uint32_t count;
    uint32_t own;  /* index of the first step that is a function of the program with a name; or */
                   /* PROFILE_NONE */
    uint32_t next; /* the first callsite that is not shown; PROFILE_NONE: none */
};

void folding_row_of(const struct folding *folding, const struct profile *profile, uint32_t callsite,
                    struct folding_row *row);

#endif
