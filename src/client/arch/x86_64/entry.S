/*
 * The way into the slow half of a hook, x86-64: notes the registers that the
 * hook's caller will have when the hook returns, as struct unwind_registers
 * (arch/registers.h), and passes their address as the fourth argument.
 *
 * Reached by a jump from the hook with its arguments in rdi, rsi, rdx, so the
 * return address on the stack is the caller's.
 */
#define REGISTERS_SIZE 64 /* keeps the stack aligned to 16 at the call */

    .macro HOOK_ENTRY name
    .globl entry_\name
    .hidden entry_\name
    .hidden slow_\name
    .type entry_\name, @function
    .p2align 4
entry_\name:
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $REGISTERS_SIZE, %rsp
    mov %rbx, 0(%rsp)
    mov (%rbp), %rax
    mov %rax, 8(%rsp) /* the caller's rbp */
    mov %r12, 16(%rsp)
    mov %r13, 24(%rsp)
    mov %r14, 32(%rsp)
    mov %r15, 40(%rsp)
    lea 16(%rbp), %rax
    mov %rax, 48(%rsp) /* sp after return */
    mov 8(%rbp), %rax
    mov %rax, 56(%rsp) /* return address */
    mov %rsp, %rcx
    call slow_\name
    leave
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size entry_\name, . - entry_\name
    .endm

    .text
#include "../hook_entries.inc"

    .section .note.GNU-stack, "", @progbits
