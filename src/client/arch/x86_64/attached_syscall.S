/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attached client's hook of syscall(), x86-64: a jump to the real function, or to
 * restrict_syscall for the numbers of seccomp and prctl. All arguments stay in their registers and
 * on the stack.
 */
#define SYS_SECCOMP 317
#define SYS_PRCTL 157
#define REAL_SYSCALL 16 /* in struct attached_params */

    .text
    .globl attached_syscall
    .hidden attached_syscall
    .hidden restrict_syscall
    .type attached_syscall, @function
    .p2align 4
attached_syscall:
    endbr64
    cmp $SYS_SECCOMP, %rdi
    je restrict_syscall
    cmp $SYS_PRCTL, %rdi
    je restrict_syscall
    jmp *heapprofd_attach_params_here+REAL_SYSCALL(%rip)
    .size attached_syscall, . - attached_syscall
    .hidden heapprofd_attach_params_here

    .section .note.GNU-stack, "", @progbits
