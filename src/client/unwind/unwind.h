/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the stack of the calling thread.
 *
 * A walk allocates nothing, takes no lock, makes no system call when warm, and
 * reads no memory that may be unmapped. It is safe in a signal handler that
 * interrupted another walk of the same thread.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Deeper stacks lose their outer frames and are marked as truncated. */
#define UNWIND_FRAMES_MAX 1024u

/* In an address of the stack, which is even. */
#define UNWIND_PLACE_GUESSED ((uintptr_t)1)

/* Registers of the hook's caller at the hook's return. The entry code in arch/<cpu>/ fills
 * them. */
struct unwind_registers;
struct unwind_memory;
struct unfinished_walk;

/* The readable range of a thread's own stack. One for each thread, zeroed at first; the caller
 * keeps it between walks. */
struct unwind_stack_bounds {
    uintptr_t low, high;           /* checked, and readable without a hole */
    uintptr_t away_low, away_high; /* checked last, and not connected to it */
};

/* Why a walk ended. Values are on the wire (record_stack.error). */
enum unwind_stop {
    UNWIND_OUTERMOST = 0,        /* a frame without return address, marked by the ABI */
    UNWIND_TRUNCATED = 1,        /* UNWIND_FRAMES_MAX frames */
    UNWIND_NO_RULE = 2,          /* code without CFI whose frame pointer leads nowhere */
    UNWIND_BAD_CFI = 3,          /* CFI that does not parse */
    UNWIND_UNREADABLE_STACK = 4, /* a slot lies outside readable memory */
    UNWIND_NO_PROGRESS = 5,      /* the stack pointer did not move outwards */
    UNWIND_FOR_DAEMON = 6,       /* the daemon may finish the walk; never in a record_stack */
    UNWIND_DAEMON_NOT_ASKED = 7, /* UNWIND_NO_RULE, and the daemon was not asked */
    UNWIND_UNREAD_CFI = 8,       /* CFI that might vanish, and may not be copied (seccomp) */
};

struct unwind_walk {
    unsigned count;        /* frames */
    unsigned proven;       /* the innermost of them that were reached by CFI, not by a guess */
    enum unwind_stop stop; /* why it ended there */
    uint64_t hash;         /* of the frames and of the module generation; never 0 */
    /* The walk reached the outermost frame by CFI alone, without a signal frame: the thread is in
     * no handler on this stack. */
    bool uninterrupted;
    bool signalled; /* a signal frame was unwound: the frames outside it were interrupted */
    /* Frames [recalled_at, recalled_at + recalled) have not been written: they are the outermost
     * remembered ones, and perhaps the outermost of the stack. unwind_write_recalled() writes
     * them. */
    unsigned recalled_at, recalled;
};

/*
 * Write the pcs of the callers, innermost first, to frames[0..max). Each pc is
 * inside its call instruction (return address - 1 on x86-64, - 4 on aarch64);
 * after a signal frame it is the exact interrupted pc. `memory` (unwind_memory.h) is
 * zeroed at first. One walk at a time may use it, best always of the same thread.
 *
 * Frames that are remembered for the next walk, mostly all, are not written: a caller who knows the
 * hash needs none of them.
 *
 * If `places` is not NULL, all frames are written, and it has max + 1 entries: frame n has
 * [places[n], places[n + 1]) of the stack, except where the walk moves to another stack. An entry
 * has UNWIND_PLACE_GUESSED added if its frame's caller was guessed: frames may have been skipped,
 * and the range be theirs, too.
 *
 * If `unfinished` (unfinished_walk.h) is not NULL, it decides at code without CFI whether to stop
 * with UNWIND_FOR_DAEMON.
 */
struct unwind_walk unwind_callstack(const struct unwind_registers *registers,
                                    struct unwind_stack_bounds *bounds,
                                    struct unwind_memory *memory, uint64_t *frames,
                                    uintptr_t *places, unsigned max,
                                    struct unfinished_walk *unfinished);

/* Write the frames that the walk left out, before another walk uses the memory. */
void unwind_write_recalled(struct unwind_walk *walk, const struct unwind_memory *memory,
                           uint64_t *frames);

/* Facts about the process. 0: unknown. */
struct unwind_process {
    uintptr_t stack_end; /* an address in the last page of the initial stack */
    /* Whether to follow code without CFI to its end (epilogue.h), as the C library has none and
     * unloads no object: musl. Its functions that end the program and a thread. */
    bool follows_code;
    uintptr_t exit, pthread_exit;
    /* An attached client's own code, which has no unwind information; 0 bytes: another client. */
    uintptr_t own_start, own_bytes;
};

/* Map the rule cache (private, wiped on fork). Call it once, before the first
 * walk. Return 0 or a negative errno. */
int unwind_init(const struct unwind_process *process);

#endif
