/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of what programs report of their own heaps: four arguments. */
#include "client/arch/aarch64/hook_entry.inc"

    .text
    HOOK_ENTRY report_allocation, x4
    HOOK_ENTRY report_sample, x4

    .section .note.GNU-stack, "", %progbits
