/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the caller's registers from a frame's registers, by a rule of the file reader.
 *
 * The only memory is a copy of the stack. Expressions are evaluated in bounded steps.
 */
#ifndef HEAPPROFD_RECORDER_WALK_FRAME_STEP_H
#define HEAPPROFD_RECORDER_WALK_FRAME_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/reader/frame_rule.h"

struct frame_machine {
    uint64_t registers[FRAME_REGISTERS]; /* by DWARF's numbers */
    uint64_t known;                      /* bit n: registers[n] is known */
    const uint64_t *stack;               /* copy of [stack_low, stack_high) */
    uint64_t stack_low, stack_high;
    unsigned steps_left; /* of expressions, for the whole walk */
    bool read_beyond;    /* a read at or above stack_high was attempted */
};

enum frame_result {
    FRAME_FOUND,
    FRAME_OUTERMOST, /* the rule marks the return address as undefined */
    FRAME_UNKNOWN,   /* a needed register is unknown */
    FRAME_UNREADABLE,
    FRAME_BAD,
};

/* Return an address without its authentication bits. */
static inline uint64_t frame_strip(uint64_t address)
{
#if defined(__aarch64__)
    address &= (UINT64_C(1) << FRAME_ADDRESS_BITS) - 1;
#endif
    return address;
}

/* Read the 8 bytes at the address. Return false if they are not in the copy. */
bool frame_read(struct frame_machine *machine, uint64_t address, uint64_t *value);

/* Replace the machine's registers with the caller's. *address is the return address, or the
 * interrupted one if *signal is set. If the result is not FRAME_FOUND, the machine is unchanged. */
enum frame_result frame_step(const struct frame_rule *rule, struct frame_machine *machine,
                             uint64_t *address, bool *signal);

#endif
