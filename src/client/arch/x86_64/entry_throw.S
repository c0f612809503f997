/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry to the slow half of a throwing operator new. It works like arch/x86_64/entry.S. But if
 * the slow half returns NULL, it jumps to the function that throws, with the original arguments and
 * with none of our frames on the stack. Its frame contains:
 *
 *   0(%rsp)   struct unwind_registers of the caller
 *   64(%rsp)  the three arguments
 */
    .macro OR_THROW name
    .globl or_throw_\name
    .hidden or_throw_\name
    .hidden slow_\name
    .hidden throw_\name
    .type or_throw_\name, @function
    .p2align 4
or_throw_\name:
    endbr64
    push %rbp
    mov %rsp, %rbp
    sub $96, %rsp
    mov %rbx, 0(%rsp)
    mov (%rbp), %rax
    mov %rax, 8(%rsp)
    mov %r12, 16(%rsp)
    mov %r13, 24(%rsp)
    mov %r14, 32(%rsp)
    mov %r15, 40(%rsp)
    lea 16(%rbp), %rax
    mov %rax, 48(%rsp)
    mov 8(%rbp), %rax
    mov %rax, 56(%rsp)
    mov %rdi, 64(%rsp)
    mov %rsi, 72(%rsp)
    mov %rdx, 80(%rsp)
    mov %rsp, %rcx
    call slow_\name
    test %rax, %rax
    jz 1f
    leave
    ret
1:
    mov 64(%rsp), %rdi
    mov 72(%rsp), %rsi
    mov 80(%rsp), %rdx
    leave
    jmp throw_\name
    .size or_throw_\name, . - or_throw_\name
    .endm

    .text
    OR_THROW _Znwm
    OR_THROW _Znam
    OR_THROW _ZnwmSt11align_val_t
    OR_THROW _ZnamSt11align_val_t

    .section .note.GNU-stack, "", @progbits
