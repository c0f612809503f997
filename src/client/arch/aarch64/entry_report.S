/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the functions that report a program's own heaps. They have four arguments. */
#include "client/arch/aarch64/hook_entry.inc"

    .text
    HOOK_ENTRY report_allocation, x4
    HOOK_ENTRY report_sample, x4

    .section .note.GNU-stack, "", %progbits
