/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a walk leaves to others: where it comes to code of a module for which no CFI is loaded,
 * somebody who can read the module's file may know how to go on (wire/record.h, struct
 * record_walk). The walk stops there and says where it stood.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNFINISHED_WALK_H
#define HEAPPROFD_CLIENT_UNWIND_UNFINISHED_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "wire/ring.h"

struct unwind_rest {
    /* Whether to stop in the module with that number (module_number()): _FOUND; or to go on by
     * frame pointers: _UNKNOWN this time, _NONE as long as the module is loaded. */
    enum ring_unwinding (*ask)(uint32_t module);

    /* Filled where the walk stops with UNWIND_LEFT. */
    uint32_t module;
    bool interrupted; /* pc was interrupted by a signal */
    uint64_t pc;      /* in the frame to be left next, as frames are */
    uint64_t known;   /* bit n: registers[n] is known */
    uintptr_t stack_low,
        stack_high; /* readable directly, with the stack pointer; both 0: nothing */
    uint64_t registers[ARCH_REGISTERS];
};

#endif
