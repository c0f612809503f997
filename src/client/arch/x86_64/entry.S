/* The entries of malloc's hooks. */
#include "hook_entry.inc"

    .text
#include "../hook_entries.inc"

    .section .note.GNU-stack, "", @progbits
