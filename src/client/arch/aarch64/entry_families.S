/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the functions of families (client/hooks/families.h): one thunk for each. It passes
 * its number, its arguments and the caller's registers to family_call(). That returns a result for
 * the caller, or a function to branch to with the original arguments. The frame contains:
 *
 *   [sp, #0]    struct unwind_registers of the caller
 *   [sp, #112]  the six arguments
 */
#include "client/arch/aarch64/hook_entry.inc"
#include "client/hooks/families.h"

    .text
    .hidden family_call
    .type family_enter, %function
    .p2align 4
family_enter:
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa x29, 16
    sub sp, sp, #(REGISTERS_SIZE + 48)
    stp x0, x1, [sp, #112]
    stp x2, x3, [sp, #128]
    stp x4, x5, [sp, #144]
    STORE_CALLER
    mov w0, w16
    add x1, sp, #112
    mov x2, sp
    bl family_call
    mov x16, x1
    cbz x1, 1f
    ldp x0, x1, [sp, #112]
    ldp x2, x3, [sp, #128]
    ldp x4, x5, [sp, #144]
1:
    mov sp, x29
    ldp x29, x30, [sp], #16
    .cfi_def_cfa sp, 0
    .cfi_restore x29
    .cfi_restore x30
    cbnz x16, 2f
    ret
2:
    br x16
    .cfi_endproc
    .size family_enter, . - family_enter

    .globl family_thunks
    .hidden family_thunks
    .type family_thunks, %function
    .p2align 4
family_thunks:
    .cfi_startproc
    .set family_number, 0
    .rept FAMILIES_MAX * FAMILY_FUNCTIONS
    .p2align 4
    mov w16, #family_number
    b family_enter
    .set family_number, family_number + 1
    .endr
    .cfi_endproc
    .size family_thunks, . - family_thunks

    .section .note.GNU-stack, "", %progbits
