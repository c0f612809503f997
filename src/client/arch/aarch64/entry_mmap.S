/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the hooks of mmap and its kin. */
#include "client/arch/aarch64/hook_entry.inc"

    .text
    HOOK_ENTRY mmap, x6
    HOOK_ENTRY mmap64, x6
    HOOK_ENTRY mremap, x5
    HOOK_ENTRY munmap, x2
    HOOK_ENTRY brk, x1
    HOOK_ENTRY sbrk, x1

    .section .note.GNU-stack, "", %progbits
