/* SPDX-License-Identifier: Apache-2.0 */
/* The rule of unwind_rule.h by processor: made from a row, applied to a frame. */
#ifndef HEAPPROFD_CLIENT_ARCH_RULE_H
#define HEAPPROFD_CLIENT_ARCH_RULE_H

#include "client/unwind/cfi.h"
#include "client/unwind/unwind_rule.h"
#include "client/unwind/unwind_stack.h"

/* What a rule needs and changes. */
struct rule_frame {
    uint64_t address; /* return address */
    uintptr_t sp, fp;
};

/* Where a rule found the caller's state. */
struct rule_slots {
    uintptr_t return_address;
    uintptr_t fp; /* 0: the frame pointer was kept */
};

/* False: the row cannot be expressed. Never 0. */
static inline bool arch_rule_make(const struct cfi_columns *columns, uint32_t *rule);

/*
 * Moves to the caller's frame. stack NULL: reads directly what lies in
 * [frame->sp, high); else through it. False, and nothing is changed: what the
 * rule needs cannot be read, or the frame would end before it began.
 */
static inline bool arch_rule_apply(uint32_t rule, struct rule_frame *frame, uintptr_t high,
                                   struct unwind_stack *stack, struct rule_slots *slots);

#if defined(__x86_64__)
#include "client/arch/x86_64/rule.h"
#elif defined(__aarch64__)
#include "client/arch/aarch64/rule.h"
#endif

#endif
