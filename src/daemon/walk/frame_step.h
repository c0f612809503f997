/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a frame's registers to its caller's, by a rule of the file reader.
 *
 * Memory is a copy of the stack, and nothing else. Expressions are evaluated in bounded steps.
 */
#ifndef HEAPPROFD_DAEMON_WALK_FRAME_STEP_H
#define HEAPPROFD_DAEMON_WALK_FRAME_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "reader/frame_rule.h"

struct frame_machine {
    uint64_t registers[FRAME_REGISTERS]; /* by DWARF's numbers */
    uint64_t known;                      /* bit n: registers[n] is known */
    const uint64_t *stack;               /* of [stack_low, stack_high) */
    uint64_t stack_low, stack_high;
    unsigned steps_left; /* of expressions, for the whole walk */
    bool read_beyond;    /* something at or above stack_high was asked for */
};

enum frame_result {
    FRAME_FOUND,
    FRAME_OUTERMOST, /* the return address is marked as undefined */
    FRAME_UNKNOWN,   /* a register that is needed is not known */
    FRAME_UNREADABLE,
    FRAME_BAD,
};

/* An address as it was before its authentication bits were added. */
static inline uint64_t frame_strip(uint64_t address)
{
#if defined(__aarch64__)
    address &= (UINT64_C(1) << FRAME_ADDRESS_BITS) - 1;
#endif
    return address;
}

/* The 8 bytes at address; false: they are not in the copy. */
bool frame_read(struct frame_machine *machine, uint64_t address, uint64_t *value);

/* Replaces the machine's registers with the caller's, *address with what is returned to, or what
 * was interrupted where *signal. The machine is as it was if the result is not FRAME_FOUND. */
enum frame_result frame_step(const struct frame_rule *rule, struct frame_machine *machine,
                             uint64_t *address, bool *signal);

#endif
