/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a walk that the daemon has to finish. If a walk reaches a module without loaded CFI,
 * the daemon may be able to go on, because it can read the module's file (wire/record.h, struct
 * record_walk). The walk stops there and reports its state.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNFINISHED_WALK_H
#define HEAPPROFD_CLIENT_UNWIND_UNFINISHED_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "wire/ring.h"

struct unfinished_walk {
    /* Decide for the module with this number (module_number()): _FOUND means stop; else go on by
     * frame pointers, _UNKNOWN only this time, _NONE as long as the module is loaded. */
    enum ring_unwinding (*ask)(uint32_t module);

    /* Filled if the walk stops with UNWIND_FOR_DAEMON. */
    uint32_t module;
    bool interrupted; /* pc was interrupted by a signal */
    bool proven;      /* pc was reached by CFI, not by a guess */
    uint64_t pc;      /* of the next frame, in the form of `frames` */
    uint64_t known;   /* bit n: registers[n] is known */
    uintptr_t stack_low,
        stack_high; /* readable directly, with the stack pointer; both 0: nothing */
    uint64_t registers[ARCH_REGISTERS];
};

#endif
