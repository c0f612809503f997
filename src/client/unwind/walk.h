/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a walk, which its warm part (warm_walk.c) and its cold part (unwind.c) share. */
#ifndef HEAPPROFD_CLIENT_UNWIND_WALK_H
#define HEAPPROFD_CLIENT_UNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/cfi.h"
#include "client/unwind/frame_rule.h"
#include "client/unwind/unwind_memory.h"
#include "client/unwind/unwind_stack.h"
#include "client/unwind/walk_hash.h"

/* What a step returns instead of a reason to stop (enum unwind_stop). */
#define WALK_GOES_ON (-1)

struct walk {
    struct rule_frame frame; /* to be unwound next; its pc is not in `frames` yet */
    bool interrupted;        /* a signal interrupted the frame: it did not call */
    bool guessed;            /* the following frames depend on a guess */
    unsigned proven;         /* after a guess: frames that do not */
    bool signalled;          /* a signal frame was unwound */
    bool tracking;           /* all registers are in machine */
    unsigned go_stacks;      /* 1 + stacks to which frames of Go may still lead; 0: outside of Go */
    unsigned track_until;    /* the frame that needs them */
    unsigned restarts;
    uint64_t *frames;
    uintptr_t *places; /* NULL: not wanted */
    unsigned count, max;
    unsigned recalled_at, recalled; /* frames that were not written: see struct unwind_walk */
    uint64_t hash, power;
    uint32_t generation;
    uint64_t generation_bits;
    const struct unwind_registers *registers;
    struct unwind_memory *memory;
    struct unfinished_walk *unfinished; /* NULL: the daemon does not finish walks */
    struct cfi_machine machine;
    struct unwind_stack stack;
};

/* Write the pc of the next frame. */
static inline void walk_write(struct walk *walk, uint64_t pc)
{
    walk->frames[walk->count++] = pc;
    walk->hash += walk_hash_pc(pc) * walk->power;
    walk->power *= WALK_HASH_STEP;
}

/* Unwind frames that are remembered or have rules, directly on the thread's own stack. Return
 * UNWIND_OUTERMOST or WALK_GOES_ON. The frames may be left unwritten: see struct unwind_walk. */
int walk_warm(struct walk *walk);

/* The same if places are wanted. All frames are written. */
int walk_warm_with_places(struct walk *walk);

/* Write the frames that walk_warm() has left out. */
static inline void walk_write_recalled(struct walk *walk)
{
    unwind_memory_write(walk->memory, walk->frames + walk->recalled_at, walk->recalled);
    walk->recalled = 0;
}

#endif
