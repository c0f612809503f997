/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the hooks of mmap and its kin. */
#include "client/arch/x86_64/hook_entry.inc"

    .text
    HOOK_ENTRY mmap, stack
    HOOK_ENTRY mmap64, stack
    HOOK_ENTRY mremap, %r9
    HOOK_ENTRY munmap, %rdx
    HOOK_ENTRY brk, %rsi
    HOOK_ENTRY sbrk, %rsi

    .section .note.GNU-stack, "", @progbits
