/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the functions of families (client/hooks/families.h): one thunk for each. It passes
 * its number, its arguments and the caller's registers to family_call(). That returns a result for
 * the caller, or a function to jump to with the original arguments. The frame contains:
 *
 *   0(%rsp)   struct unwind_registers of the caller
 *   64(%rsp)  the six arguments
 */
#include "client/arch/x86_64/hook_entry.inc"
#include "client/hooks/families.h"

    .text
    .hidden family_call
    .type family_enter, @function
    .p2align 4
family_enter:
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
    call family_call
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
    .size family_enter, . - family_enter

    .globl family_thunks
    .hidden family_thunks
    .type family_thunks, @function
    .p2align 4
family_thunks:
    .cfi_startproc
    .set family_number, 0
    .rept FAMILIES_MAX * FAMILY_FUNCTIONS
    .p2align 4
    endbr64
    mov $family_number, %eax
    jmp family_enter
    .set family_number, family_number + 1
    .endr
    .cfi_endproc
    .size family_thunks, . - family_thunks

    .section .note.GNU-stack, "", @progbits
