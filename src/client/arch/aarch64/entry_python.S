/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the functions that count pymalloc's allocations. */
#include "client/arch/aarch64/hook_entry.inc"

    .text
    HOOK_ENTRY python_malloc
    HOOK_ENTRY python_calloc
    HOOK_ENTRY python_allocated
    HOOK_ENTRY python_realloc

    .section .note.GNU-stack, "", %progbits
