/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a function's first instructions before and after the move to a trampoline. */
#include "recorder/attach/trampoline.h"

uint64_t trampoline_enter(const struct trampoline *trampoline, uint64_t pc)
{
    const struct attached_site *site = &trampoline->site;
    if (pc <= site->address || pc >= site->address + site->length)
        return 0;
    for (unsigned i = 0; i < trampoline->instruction_count; i++) {
        if (site->address + trampoline->instructions[i].before == pc)
            return site->trampoline + trampoline->instructions[i].now;
    }
    return 0;
}

uint64_t trampoline_leave(const struct trampoline *trampoline, uint64_t pc)
{
    const struct attached_site *site = &trampoline->site;
    if (trampoline->far_hook != 0 &&
        pc - site->trampoline - TRAMPOLINE_BYTES < TRAMPOLINE_FAR_BYTES)
        return site->address;
    if (pc < site->trampoline || pc >= site->trampoline + trampoline->code_bytes)
        return 0;
    for (unsigned i = 0; i < trampoline->instruction_count; i++) {
        if (site->trampoline + trampoline->instructions[i].now == pc)
            return site->address + trampoline->instructions[i].before;
    }
    return site->address + site->length; /* at the jump back */
}
