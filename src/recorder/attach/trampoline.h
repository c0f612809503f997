/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patching the entry of a function: the bytes that a jump replaces, and a trampoline that does the
 * same and continues after them. arch/<processor>/trampoline.c decodes and moves instructions.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_TRAMPOLINE_H
#define HEAPPROFD_RECORDER_ATTACH_TRAMPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attached_params.h"

/* Room for the replaced instructions, some of them in a longer form, and a jump. */
#define TRAMPOLINE_BYTES 96

/* Besides, in an annex: a jump to a hook that the entry's own does not reach. */
#define TRAMPOLINE_FAR_BYTES 16

#define TRAMPOLINE_INSTRUCTIONS_MAX 8

struct trampoline {
    struct attached_site site;
    uint8_t code[TRAMPOLINE_BYTES];
    size_t code_bytes;
    /* Offsets of the instructions from site.address before, and from site.trampoline now. */
    struct {
        uint8_t before, now;
    } instructions[TRAMPOLINE_INSTRUCTIONS_MAX];
    unsigned instruction_count;
    bool is_patched;   /* the entry jumps to the hook */
    uint64_t far_hook; /* in an annex: the jump to this hook is after TRAMPOLINE_BYTES; 0: none */
};

/*
 * Make the trampoline of the function at `function`, whose first `length` bytes are `code` (at most
 * its size, if known), for a jump to `hook`. The trampoline will be at `at`. Return 0, or -ENOTSUP
 * with a reason in *why if the function's form cannot be patched.
 */
int trampoline_make(struct trampoline *trampoline, uint64_t function, const uint8_t *code,
                    size_t length, uint64_t hook, uint64_t at, const char **why);

/* Return the address in the trampoline that corresponds to a pc inside the replaced bytes, behind
 * the first of them; 0 if pc is elsewhere, or in the middle of an instruction. */
uint64_t trampoline_enter(const struct trampoline *trampoline, uint64_t pc);

/* Return the address in the restored function that corresponds to a pc in the trampoline, or at the
 * jump to a far hook; 0 if pc is not in it. */
uint64_t trampoline_leave(const struct trampoline *trampoline, uint64_t pc);

#endif
