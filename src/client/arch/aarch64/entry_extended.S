/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow halves of the hooks of the allocators' extended functions. extended_slow_NAME passes its
 * row's number, its arguments and the caller's registers to extended_call() (client/extended.h).
 * That returns a result for the caller, or a function to branch to with the original arguments. The
 * frame contains:
 *
 *   [sp, #0]    struct unwind_registers of the caller
 *   [sp, #112]  the six arguments
 */
#include "client/arch/aarch64/hook_entry.inc"
#include "wire/allocator_functions.h"

    .text
    .type extended_enter, %function
    .p2align 4
extended_enter:
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
    bl extended_call
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
    .size extended_enter, . - extended_enter

    .macro EXTENDED_SLOW name
    .globl extended_slow_\name
    .hidden extended_slow_\name
    .type extended_slow_\name, %function
    .p2align 3
extended_slow_\name:
    .cfi_startproc
    mov w16, #extended_number
    b extended_enter
    .cfi_endproc
    .size extended_slow_\name, . - extended_slow_\name
    .set extended_number, extended_number + 1
    .endm

#define EXTENDED_SLOW_OF(name, ...) EXTENDED_SLOW name;

    .hidden extended_call
    .set extended_number, 0
    ALLOCATOR_EXTENDED(EXTENDED_SLOW_OF)

    .section .note.GNU-stack, "", %progbits
