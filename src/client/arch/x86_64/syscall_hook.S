/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of syscall(), x86-64: a jump to the real function, or to hook_seccomp for the numbers of
 * seccomp and prctl. All arguments stay in their registers and on the stack.
 */
#define SYS_SECCOMP 317
#define SYS_PRCTL 157

    .text
    .globl syscall
    .type syscall, @function
    .p2align 4
syscall:
    .cfi_startproc
    endbr64
    cmp $SYS_SECCOMP, %rdi
    je hook_seccomp
    cmp $SYS_PRCTL, %rdi
    je hook_seccomp
    mov real_syscall(%rip), %rax
    test %rax, %rax
    jz 1f
    jmp *%rax
1:
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    .cfi_adjust_cfa_offset 48
    sub $8, %rsp /* aligned to 16 at the call */
    .cfi_adjust_cfa_offset 8
    call seccomp_hooks_resolve
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %r9
    pop %r8
    pop %rcx
    pop %rdx
    pop %rsi
    pop %rdi
    .cfi_adjust_cfa_offset -48
    jmp *real_syscall(%rip)
    .cfi_endproc
    .size syscall, . - syscall
    .hidden hook_seccomp
    .hidden real_syscall
    .hidden seccomp_hooks_resolve

    .section .note.GNU-stack, "", @progbits
