/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of malloc's hooks. */
#include "client/arch/aarch64/hook_entry.inc"

    .text
#include "client/arch/hook_entries.inc"

    .section .note.GNU-stack, "", %progbits
