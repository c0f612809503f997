/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of what programs report of their own heaps: four arguments. */
#include "client/arch/x86_64/hook_entry.inc"

    .text
    HOOK_ENTRY report_allocation, %r8
    HOOK_ENTRY report_sample, %r8

    .section .note.GNU-stack, "", @progbits
