/*
 * The way into the slow half of a hook, aarch64: notes the registers that the
 * hook's caller will have when the hook returns, as struct unwind_registers
 * (arch/registers.h), and passes their address as the fourth argument.
 *
 * Reached by a branch from the hook with its arguments in x0, x1, x2, so the
 * link register is the caller's return address.
 */
#define REGISTERS_SIZE 112

    .macro HOOK_ENTRY name
    .globl entry_\name
    .hidden entry_\name
    .hidden slow_\name
    .type entry_\name, %function
    .p2align 4
entry_\name:
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa x29, 16
    sub sp, sp, #REGISTERS_SIZE
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    ldr x9, [x29]
    add x10, x29, #16
    stp x9, x10, [sp, #80] /* the caller's frame pointer, and sp after return */
    hint #7                /* xpaclri: strips a pointer authentication code from x30 */
    stp x30, xzr, [sp, #96]
    mov x3, sp
    bl slow_\name
    mov sp, x29
    ldp x29, x30, [sp], #16
    .cfi_def_cfa sp, 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size entry_\name, . - entry_\name
    .endm

    .text
#include "../hook_entries.inc"

    .section .note.GNU-stack, "", %progbits
