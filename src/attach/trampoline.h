/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patching the entry of a function: which bytes a jump replaces, and code elsewhere that does what
 * they did and goes on behind them.
 */
#ifndef HEAPPROFD_ATTACH_TRAMPOLINE_H
#define HEAPPROFD_ATTACH_TRAMPOLINE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/attached_params.h"

/* `jmp rel32`. */
#define TRAMPOLINE_JUMP_BYTES 5

/* Room for a trampoline: the replaced instructions, each perhaps in a longer form, and a jump. */
#define TRAMPOLINE_BYTES 96

#define TRAMPOLINE_INSTRUCTIONS_MAX 8

struct trampoline {
    struct attached_site site;
    uint8_t code[TRAMPOLINE_BYTES];
    size_t code_bytes;
    /* Where instructions began, and where they begin now, from site.address and site.trampoline. */
    struct {
        uint8_t before, now;
    } instructions[TRAMPOLINE_INSTRUCTIONS_MAX];
    unsigned instruction_count;
};

/*
 * Makes the trampoline of the function at `function`, whose first `length` bytes are `code` (at
 * most its size, if that is known), for a jump to `hook`; it is to stand at `at`. 0, or -ENOTSUP
 * with *why in words where the function is not of a form that can be patched.
 */
int trampoline_make(struct trampoline *trampoline, uint64_t function, const uint8_t *code,
                    size_t length, uint64_t hook, uint64_t at, const char **why);

/* Where a thread that stands at pc, behind the first of the replaced bytes, goes on; 0: it does not
 * stand there. */
uint64_t trampoline_enter(const struct trampoline *trampoline, uint64_t pc);

/* Where one that stands in the trampoline goes on once the bytes are back; 0: it does not. */
uint64_t trampoline_leave(const struct trampoline *trampoline, uint64_t pc);

#endif
