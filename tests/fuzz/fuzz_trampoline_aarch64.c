/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of aarch64 and their trampolines, on any processor: both do the same, by a machine that
 * knows the instructions that depend on their address (tests/unit/aarch64_machine.h). The input is
 * two bytes, which choose the place of the hook and the machine's state, and the function.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/aarch64_machine.h"
#include "recorder/attach/trampoline.h"

#define FUNCTION UINT64_C(0xffff80123450)
#define HEAD_BYTES 2u
#define CODE_BYTES_MAX 256u

static void fail(int line)
{
    fprintf(stderr, "check in line %d fails\n", line);
    abort();
}

#define check(good) ((good) ? (void)0 : fail(__LINE__))

static void compare(const struct trampoline *trampoline, unsigned seed)
{
    const struct attached_site *site = &trampoline->site;
    struct machine before = {.flags = seed & 15};
    for (unsigned i = 0; i < 31; i++)
        before.registers[i] = seed >> 4 != 0 ? UINT64_C(1) << (seed + i) % 64 : 0;
    struct machine after = before;
    machine_run(&before, site->original, site->length, site->address, site->address);
    machine_run(&after, trampoline->code, trampoline->code_bytes, site->trampoline, site->address);
    check(machine_is_same(&before, &after));
}

static void check_places(const struct trampoline *trampoline)
{
    const struct attached_site *site = &trampoline->site;
    check(trampoline_enter(trampoline, site->address) == 0);
    check(trampoline_leave(trampoline, site->trampoline) == site->address);
    for (uint32_t at = 4; at < site->length; at += 4) {
        uint64_t moved = trampoline_enter(trampoline, site->address + at);
        if (moved != 0)
            check(trampoline_leave(trampoline, moved) == site->address + at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t hooks[] = {FUNCTION - 0x7000000, FUNCTION + 0x8000000 - 4,
                                     UINT64_C(0xaaaa00001000), 0x400000};
    uint8_t code[CODE_BYTES_MAX];
    struct trampoline trampoline;
    const char *why = NULL;
    if (size < HEAD_BYTES || size - HEAD_BYTES > sizeof(code))
        return 0;
    memcpy(code, data + HEAD_BYTES, size - HEAD_BYTES);
    uint64_t hook = hooks[data[0] & 3];
    if (trampoline_make(&trampoline, FUNCTION, code, size - HEAD_BYTES, hook, hook + 0x10000,
                        &why) < 0) {
        check(why != NULL);
        return 0;
    }
    const struct attached_site *site = &trampoline.site;
    check(site->length >= 4 && site->length <= ATTACHED_SITE_BYTES && site->length % 4 == 0);
    check(trampoline.code_bytes <= TRAMPOLINE_BYTES && trampoline.code_bytes % 4 == 0);
    check(memcmp(site->original, code + (site->address - FUNCTION), site->length) == 0);
    check_places(&trampoline);
    compare(&trampoline, data[1]);
    return 0;
}
