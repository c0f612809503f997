/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single steps: between step_begin() and step_end() the thread gets SIGTRAP after each instruction.
 * On processors other than x86-64 these functions do nothing.
 */
#ifndef TESTS_PROGRAMS_SINGLE_STEP_H
#define TESTS_PROGRAMS_SINGLE_STEP_H

#include <ucontext.h>

#include "truth.h"

static CALLSITE void step_begin(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
#endif
}

static CALLSITE void step_end(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
#endif
}

/* Call this in the handler of SIGTRAP to stop the steps. */
static inline void step_no_more(void *interrupted)
{
#if defined(__x86_64__)
    ((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
#else
    (void)interrupted;
#endif
}

#endif
