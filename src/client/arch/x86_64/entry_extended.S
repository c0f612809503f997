/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow halves of the hooks of the allocators' extended functions. extended_slow_NAME passes its
 * row's number, its arguments and the caller's registers to extended_call() (client/extended.h).
 * That returns a result for the caller, or a function to jump to with the original arguments. The
 * frame contains:
 *
 *   0(%rsp)   struct unwind_registers of the caller
 *   64(%rsp)  the six arguments
 */
#include "client/arch/x86_64/hook_entry.inc"
#include "wire/allocator_functions.h"

    .text
    .type extended_enter, @function
    .p2align 4
extended_enter:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $(REGISTERS_SIZE + 48), %rsp
    mov %rdi, 64(%rsp)
    mov %rsi, 72(%rsp)
    mov %rdx, 80(%rsp)
    mov %rcx, 88(%rsp)
    mov %r8, 96(%rsp)
    mov %r9, 104(%rsp)
    mov %eax, %edi
    STORE_CALLER
    lea 64(%rsp), %rsi
    mov %rsp, %rdx
    call extended_call
    test %rdx, %rdx
    jnz 1f
    .cfi_remember_state
    leave
    .cfi_def_cfa %rsp, 8
    ret
1:
    .cfi_restore_state
    mov %rdx, %r11
    mov 64(%rsp), %rdi
    mov 72(%rsp), %rsi
    mov 80(%rsp), %rdx
    mov 88(%rsp), %rcx
    mov 96(%rsp), %r8
    mov 104(%rsp), %r9
    leave
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc
    .size extended_enter, . - extended_enter

    .macro EXTENDED_SLOW name
    .globl extended_slow_\name
    .hidden extended_slow_\name
    .type extended_slow_\name, @function
    .p2align 4
extended_slow_\name:
    .cfi_startproc
    endbr64
    mov $extended_number, %eax
    jmp extended_enter
    .cfi_endproc
    .size extended_slow_\name, . - extended_slow_\name
    .set extended_number, extended_number + 1
    .endm

#define EXTENDED_SLOW_OF(name, ...) EXTENDED_SLOW name;

    .hidden extended_call
    .set extended_number, 0
    ALLOCATOR_EXTENDED(EXTENDED_SLOW_OF)

    .section .note.GNU-stack, "", @progbits
