/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the functions that report a program's own heaps. They have four arguments. */
#include "client/arch/x86_64/hook_entry.inc"

    .text
    HOOK_ENTRY report_allocation, %r8
    HOOK_ENTRY report_sample, %r8

    .section .note.GNU-stack, "", @progbits
