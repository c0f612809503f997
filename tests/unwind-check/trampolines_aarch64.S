/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument whose first instructions depend on their address, and landing pads. */
    .text
    .p2align 4
words:
    .quad 0x123456789abcdef0, 0xfedcba9876543210

    .macro FUNCTION name
    .globl f_\name
    .type f_\name, %function
    .p2align 4
f_\name:
    .endm

    FUNCTION adr
    adr x1, words
    ldr x1, [x1]
    add x0, x0, x1
    nop
    ret

    FUNCTION adrp
    adrp x1, words
    add x1, x1, :lo12:words
    ldr x1, [x1, 8]
    eor x0, x0, x1
    ret

    FUNCTION ldr
    ldr x1, words
    ldr w2, words
    ldrsw x3, words
    add x0, x0, x1
    add x2, x2, x3
    sub x0, x0, x2
    ret

    FUNCTION vector
    ldr q0, words
    ldr d1, words
    ldr s2, words
    add v0.2d, v0.2d, v1.2d
    eor v0.16b, v0.16b, v2.16b
    addp d0, v0.2d
    fmov x1, d0
    add x0, x0, x1
    ret

    FUNCTION prfm
    prfm pldl1keep, words
    add x0, x0, 1
    nop
    nop
    ret

    FUNCTION cbz
    cbz x0, 1f
    add x0, x0, 5
    nop
    nop
    ret
1:  mov x0, 77
    ret

    FUNCTION cbnz
    cbnz w0, 1f
    add x0, x0, 6
    nop
    nop
    ret
1:  mov x0, 78
    ret

    FUNCTION tbz
    tbz x0, 63, 1f
    add x0, x0, 7
    nop
    nop
    ret
1:  add x0, x0, 79
    ret

    FUNCTION tbnz
    tbnz w0, 1, 1f
    add x0, x0, 8
    nop
    nop
    ret
1:  add x0, x0, 80
    ret

    FUNCTION condition
    cmp x0, 2
    b.hi 1f
    b.eq 2f
    add x0, x0, 9
    nop
    ret
1:  mov x0, 81
    ret
2:  mov x0, 82
    ret

    FUNCTION jump
    b 1f
    nop
    nop
    nop
    ret
1:  add x0, x0, 10
    ret

    FUNCTION sign
    hint 25 /* paciasp */
    stp x29, x30, [sp, -16]!
    mov x29, sp
    add x0, x0, 11
    ldp x29, x30, [sp], 16
    hint 29 /* autiasp */
    ret

    FUNCTION landing
    hint 34 /* bti c */
    add x0, x0, 12
    nop
    nop
    nop
    ret

    FUNCTION leave
    add x0, x0, 13
    ret
    nop
    nop
    ret

    .section .note.GNU-stack, "", %progbits
