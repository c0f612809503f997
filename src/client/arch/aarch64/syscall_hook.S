/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of syscall(), aarch64: a branch to the real function, or to hook_seccomp for the numbers
 * of seccomp and prctl. All arguments stay in their registers.
 */
#define SYS_SECCOMP 277
#define SYS_PRCTL 167

    .text
    .globl syscall
    .hidden hook_seccomp
    .hidden real_syscall
    .hidden seccomp_hooks_resolve
    .type syscall, %function
    .p2align 4
syscall:
    .cfi_startproc
    hint #34 /* bti c */
    cmp x0, #SYS_SECCOMP
    b.eq hook_seccomp
    cmp x0, #SYS_PRCTL
    b.eq hook_seccomp
    adrp x16, real_syscall
    ldr x16, [x16, #:lo12:real_syscall]
    cbz x16, 1f
    br x16
1:
    stp x29, x30, [sp, #-80]!
    .cfi_def_cfa_offset 80
    .cfi_offset x29, -80
    .cfi_offset x30, -72
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    bl seccomp_hooks_resolve
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp x29, x30, [sp], #80
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    adrp x16, real_syscall
    ldr x16, [x16, #:lo12:real_syscall]
    br x16
    .cfi_endproc
    .size syscall, . - syscall

    .section .note.GNU-stack, "", @progbits
