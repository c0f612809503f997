/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes instructions of aarch64 as far as moving them needs it: does an instruction depend on its
 * own address, and where does execution continue after it? Pure functions of the instruction, which
 * are built and tested on every processor.
 */
#ifndef HEAPPROFD_ATTACH_AARCH64_INSTRUCTION_H
#define HEAPPROFD_ATTACH_AARCH64_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

#define INSTRUCTION_BYTES 4u

enum instruction_kind {
    INSTRUCTION_PLAIN,     /* does the same at any address */
    INSTRUCTION_ADDRESS,   /* adr, adrp: puts the target's address into a register */
    INSTRUCTION_LOAD,      /* ldr of a literal: reads the target */
    INSTRUCTION_PREFETCH,  /* prfm of a literal: only a hint */
    INSTRUCTION_JUMP,      /* b: continues at the target */
    INSTRUCTION_CONDITION, /* b.cond, cbz, tbz and their kin: continues at the target, or after it
                            */
    INSTRUCTION_CALL,      /* bl, blr */
    INSTRUCTION_LEAVE,     /* br, ret: never continues after it */
    INSTRUCTION_UNKNOWN,   /* not known, or depends on its address in another way */
};

struct instruction {
    enum instruction_kind kind;
    uint32_t word;
    uint64_t target; /* if it has one */
};

struct instruction instruction_decode(uint32_t word, uint64_t address);

/* Return whether an indirect branch to a function may land on the instruction (BTI). */
bool instruction_is_landing_pad(uint32_t word);

/* Return whether it signs the return address. Such an instruction is a landing pad, too. */
bool instruction_signs_return(uint32_t word);

/* Return whether the instruction never has an effect: alignment between functions. */
bool instruction_is_padding(uint32_t word);

/* Return the register in its lowest bits: that of an address, a load or a condition. */
static inline unsigned instruction_register(uint32_t word)
{
    return word & 31;
}

/* Return whether a field of the instruction might name this general register. May be true for
 * others. */
bool instruction_may_use(const struct instruction *instruction, unsigned number);

#endif
