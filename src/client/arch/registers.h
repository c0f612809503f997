/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registers with which a walk begins: those of the hook's caller at the
 * instruction after its call. arch/<cpu>/entry.S fills them and depends on these
 * layouts.
 */
#ifndef HEAPPROFD_CLIENT_ARCH_REGISTERS_H
#define HEAPPROFD_CLIENT_ARCH_REGISTERS_H

#include <stdint.h>

#if defined(__x86_64__)
struct unwind_registers {
    uint64_t rbx, rbp, r12, r13, r14, r15;
    uint64_t sp; /* the CFA of the hook: sp after its return */
    uint64_t pc; /* return address */
};
#elif defined(__aarch64__)
struct unwind_registers {
    uint64_t x19_x28[10];
    uint64_t fp;
    uint64_t sp;
    uint64_t pc; /* return address, without pointer authentication code */
    uint64_t pad;
};
#endif

#endif
