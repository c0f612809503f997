/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule cache: how to leave the frame that returns to a given address, one
 * 64-bit word each, in a table that all threads read and write without a lock.
 *
 * A word holds the return address (the part that its place in the table does
 * not tell), the generation of modules that it was made in, and the rule. So a
 * word that matches is right, whoever wrote it and whenever: there is nothing to
 * order, and no collision that could be taken for a hit.
 *
 *   63             32 31       30         25 24                           0
 *   address >> 15     bit 0    generation    rule                         x86-64
 *
 * An address has two places: the word that its low bits name, and that word's
 * neighbour, so the bit in which neighbours differ is part of the word.
 *
 * The rule is special (full interpreter, outermost frame, ...) or says that
 *
 *   CFA            = (stack or frame pointer) + offset * unit
 *   return address = what lies at a fixed place of the frame
 *   frame pointer  = kept, or what lies at another
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_RULE_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"
#include "client/unwind/cfi.h"
#include "wire/barrier.h"

#define RULE_INDEX_BITS 15u /* 256 KiB */
#define RULE_BITS 25u
#define RULE_GENERATION_BITS 6u
#define RULE_TAG_SHIFT (RULE_BITS + RULE_GENERATION_BITS)

_Static_assert(ARCH_ADDRESS_BITS - ARCH_CODE_SHIFT - RULE_INDEX_BITS + 1 + RULE_TAG_SHIFT <= 64,
               "an address is told by its place and its tag");

enum rule_special {
    RULE_INTERPRET = 1, /* the full interpreter */
    RULE_OUTERMOST = 2,
    RULE_NO_CFI = 3, /* a module's code without CFI: frame pointers */
    RULE_BAD_CFI = 4,
    RULE_LEAVE = 5, /* the same code, while others may know how to go on */
};

#define RULE_IS_SPECIAL (1u << 24)
#define RULE_MASK ((1u << RULE_BITS) - 1)

extern __attribute__((visibility("hidden"))) uint64_t *rule_table;

/* What the word for an address looks like in this generation, without the rule. */
static inline uint64_t rule_key(uint64_t address, uint64_t generation_bits)
{
    uint64_t code = address >> ARCH_CODE_SHIFT;
    uint64_t tag = code >> RULE_INDEX_BITS << 1 | (code & 1);
    return tag << RULE_TAG_SHIFT | generation_bits;
}

static inline uint64_t rule_index(uint64_t address)
{
    return (address >> ARCH_CODE_SHIFT) & ((1u << RULE_INDEX_BITS) - 1);
}

/* Of module_generation(); never 0, so that an empty word matches nothing. */
static inline uint64_t rule_generation_bits(uint32_t generation)
{
    return (uint64_t)(generation % ((1u << RULE_GENERATION_BITS) - 1) + 1) << RULE_BITS;
}

/* The rule for address, with anything in the bits above RULE_BITS; or 0. */
static inline __attribute__((always_inline)) uint32_t
rule_find(const uint64_t *table, uint64_t address, uint64_t generation_bits)
{
    uint64_t index = rule_index(address), key = rule_key(address, generation_bits);
    uint64_t word = load_relaxed(&table[index]);
    /* The rule is taken from the word itself: the comparison is off the path
     * from one frame to the next. */
    if (likely((word ^ key) >> RULE_BITS == 0))
        return (uint32_t)word;
    word = load_relaxed(&table[index ^ 1]);
    return likely((word ^ key) >> RULE_BITS == 0) ? (uint32_t)word : 0;
}

/* Puts a rule into the table; what stood in its place moves to the neighbour. */
void rule_insert(uint64_t address, uint64_t generation_bits, uint32_t rule);

/* The rule that does what the row says; RULE_INTERPRET if none can. */
uint32_t rule_compile(const struct cfi_row *row);

/* Maps the table; 0 or a negative errno. */
int rule_init(void);

/* To be called with the generation that a walk begins in: empties the table
 * before its generation numbers come round again. */
void rule_begin(uint32_t generation);

#endif
