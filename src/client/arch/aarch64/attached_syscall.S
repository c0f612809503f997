/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attached client's hook of syscall(), aarch64: a branch to the real function, or to
 * restrict_syscall for the numbers of seccomp and prctl. All arguments stay in their registers.
 */
#define SYS_SECCOMP 277
#define SYS_PRCTL 167
#define REAL_SYSCALL 16 /* in struct attached_params */

    .text
    .globl attached_syscall
    .hidden attached_syscall
    .hidden restrict_syscall
    .hidden heapprofd_attach_params_here
    .type attached_syscall, %function
    .p2align 4
attached_syscall:
    hint #34 /* bti c */
    cmp x0, #SYS_SECCOMP
    b.eq restrict_syscall
    cmp x0, #SYS_PRCTL
    b.eq restrict_syscall
    adrp x16, heapprofd_attach_params_here
    add x16, x16, #:lo12:heapprofd_attach_params_here
    ldr x16, [x16, #REAL_SYSCALL]
    br x16
    .size attached_syscall, . - attached_syscall

    .section .note.GNU-stack, "", @progbits
