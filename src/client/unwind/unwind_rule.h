/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule cache: for a return address, how to unwind the frame that it returns to.
 * Each entry is one 64-bit word, in a table that all threads read and write without
 * a lock.
 *
 * A word contains the return address (without the bits that its index implies),
 * the generation of modules in which it was made, and the rule. So a matching word
 * is correct, whichever thread wrote it and when: no ordering is needed, and a
 * collision cannot be taken for a hit.
 *
 *   63             31 30         25 24                           0
 *   address >> 14     generation    rule                         x86-64
 *
 * An address can be in two places: the word at its 15 low bits, or the word whose index differs
 * in the highest of these. That bit is part of the word.
 *
 * A rule is either special (full interpreter, outermost frame, ...), or plain, and stands for:
 *
 *   CFA            = (stack or frame pointer) + offset * unit
 *   return address = the word at a fixed place of the frame
 *   frame pointer  = unchanged, or the word at another fixed place
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_UNWIND_RULE_H
#define HEAPPROFD_CLIENT_UNWIND_UNWIND_RULE_H

#include <stdint.h>

#include "client/arch/unwind.h"
#include "client/unwind/cfi.h"
#include "wire/barrier.h"

#define RULE_INDEX_BITS 15u /* 256 KiB */
#define RULE_BITS 25u
#define RULE_GENERATION_BITS 6u
#define RULE_TAG_SHIFT (RULE_BITS + RULE_GENERATION_BITS)

/* The bits of the index that both places of an address have. */
#define RULE_SET_BITS (RULE_INDEX_BITS - 1)

_Static_assert(ARCH_ADDRESS_BITS - ARCH_CODE_SHIFT - RULE_SET_BITS + RULE_TAG_SHIFT <= 64,
               "index and tag identify an address");

/* Rules that are not plain. 0: no rule. */
enum rule_special {
    RULE_INTERPRET = 1, /* the full interpreter */
    RULE_OUTERMOST = 2,
    RULE_NO_CFI = 3, /* a module's code without CFI: use frame pointers */
    RULE_BAD_CFI = 4,
    RULE_FOR_DAEMON = 5, /* code without CFI, at which the daemon may be able to continue */
};

#define RULE_IS_PLAIN (1u << 24)
#define RULE_MASK ((1u << RULE_BITS) - 1)

extern __attribute__((visibility("hidden"))) uint64_t *rule_table;

/* Return the word of an address in this generation, without the rule. */
static inline uint64_t rule_key(uint64_t address, uint64_t generation_bits)
{
    uint64_t tag = address >> (ARCH_CODE_SHIFT + RULE_SET_BITS);
    return tag << RULE_TAG_SHIFT | generation_bits;
}

static inline uint64_t rule_index(uint64_t address)
{
    return (address >> ARCH_CODE_SHIFT) & ((1u << RULE_INDEX_BITS) - 1);
}

/* Return the index of the other place of an address. */
static inline uint64_t rule_other_index(uint64_t index)
{
    return index ^ 1u << RULE_SET_BITS;
}

static inline uint64_t rule_generation_bits(uint32_t generation)
{
    return (uint64_t)(generation % (1u << RULE_GENERATION_BITS)) << RULE_BITS;
}

/* Return the rule of an address, with undefined bits above RULE_BITS. These may be all that is set:
 * there is no rule. An empty word has none. */
static inline __attribute__((always_inline)) uint32_t
rule_find(const uint64_t *table, uint64_t address, uint64_t generation_bits)
{
    uint64_t index = rule_index(address), key = rule_key(address, generation_bits);
    uint64_t word = load_relaxed(&table[index]);
    /* The rule comes from the word itself, so the next frame does not depend on
     * the comparison. */
    if (likely((word ^ key) >> RULE_BITS == 0))
        return (uint32_t)word;
    word = load_relaxed(&table[rule_other_index(index)]);
    return likely((word ^ key) >> RULE_BITS == 0) ? (uint32_t)word : 0;
}

/* Insert a rule. The word that was in its place moves to its other one. */
void rule_insert(uint64_t address, uint64_t generation_bits, uint32_t rule);

/* Return the rule that has the effect of a row; RULE_INTERPRET if there is none. */
uint32_t rule_compile(const struct cfi_row *row);

/* Map the table. Return 0 or a negative errno. */
int rule_init(void);

/* Call it with the generation in which a walk begins. Empties the table before
 * generation bits are reused. */
void rule_begin(uint32_t generation);

#endif
