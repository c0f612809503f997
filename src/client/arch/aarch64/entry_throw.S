/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry to the slow half of a throwing operator new, aarch64. It works like HOOK_ENTRY
 * (hook_entry.inc). But if the slow half returns NULL, it branches to the function that throws, with
 * the original arguments and link register and with none of our frames on the stack. Its frame
 * contains:
 *
 *   0(sp)    struct unwind_registers of the caller
 *   112(sp)  the three arguments
 *   144(sp)  x29 and x30 of the caller
 */
#define FRAME_SIZE 160
#define ARGUMENTS 112
#define CALLER 144

    .macro OR_THROW name
    .globl or_throw_\name
    .hidden or_throw_\name
    .hidden slow_\name
    .hidden throw_\name
    .type or_throw_\name, %function
    .p2align 4
or_throw_\name:
    sub sp, sp, #FRAME_SIZE
    stp x29, x30, [sp, #CALLER]
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    add x10, sp, #FRAME_SIZE
    stp x29, x10, [sp, #80] /* the caller's frame pointer, and sp after return */
    hint #7                 /* xpaclri: strips a pointer authentication code from x30 */
    stp x30, xzr, [sp, #96]
    stp x0, x1, [sp, #ARGUMENTS]
    str x2, [sp, #ARGUMENTS + 16]
    add x29, sp, #CALLER
    mov x3, sp
    bl slow_\name
    ldp x29, x30, [sp, #CALLER]
    cbz x0, 1f
    add sp, sp, #FRAME_SIZE
    ret
1:
    ldp x0, x1, [sp, #ARGUMENTS]
    ldr x2, [sp, #ARGUMENTS + 16]
    add sp, sp, #FRAME_SIZE
    b throw_\name
    .size or_throw_\name, . - or_throw_\name
    .endm

    .text
    OR_THROW _Znwm
    OR_THROW _Znam
    OR_THROW _ZnwmSt11align_val_t
    OR_THROW _ZnamSt11align_val_t

    .section .note.GNU-stack, "", %progbits
