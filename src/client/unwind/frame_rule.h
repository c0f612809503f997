/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's form of a rule (unwind_rule.h): make it from a row, apply it to a frame. */
#ifndef HEAPPROFD_CLIENT_UNWIND_FRAME_RULE_H
#define HEAPPROFD_CLIENT_UNWIND_FRAME_RULE_H

#include <stddef.h>

#include "client/unwind/cfi.h"
#include "client/unwind/unwind_rule.h"
#include "client/unwind/unwind_stack.h"

/* The registers that a rule reads and changes. */
struct rule_frame {
    uint64_t address; /* return address */
    uintptr_t sp, fp;
};

/* The stack slots of the caller's state. */
struct rule_slots {
    uintptr_t return_address;
    uintptr_t fp; /* 0: the frame pointer was kept */
};

/* Make a rule, which is never 0. Return false if the row has none. */
static inline bool arch_rule_make(const struct cfi_columns *columns, uint32_t *rule);

/*
 * Move to the caller's frame. If `stack` is NULL, read [frame->sp, high) directly;
 * else read through it. Return false, with nothing changed, if a slot cannot be
 * read or the frame would end before it begins.
 */
static inline bool arch_rule_apply(uint32_t rule, struct rule_frame *frame, uintptr_t high,
                                   struct unwind_stack *stack, struct rule_slots *slots);

#if defined(__x86_64__)
#include "client/unwind/frame_rule_x86_64.h"
#elif defined(__aarch64__)
#include "client/unwind/frame_rule_aarch64.h"
#endif

#endif
