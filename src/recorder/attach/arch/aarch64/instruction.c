/* SPDX-License-Identifier: Apache-2.0 */
/* Decode instructions. The groups and encodings are those of the Arm Architecture Reference Manual,
 * chapter C4. What is not known there is INSTRUCTION_UNKNOWN. */
#include "recorder/attach/arch/aarch64/instruction.h"

#include <stddef.h>

/* Hints, which have no effect on processors without the feature. */
#define NOP 0xd503201fu
#define BTI_C 0xd503245fu
#define BTI_J 0xd503249fu
#define BTI_JC 0xd50324dfu
#define PACIASP 0xd503233fu
#define PACIBSP 0xd503237fu
#define PACM 0xd50324ffu /* makes the next signature depend on the pc */

/* Return the field of `bits` bits from bit `low` on, with its sign, in bytes of instructions. */
static uint64_t instruction_distance(uint32_t word, unsigned low, unsigned bits)
{
    uint64_t value = (uint64_t)word << (64 - low - bits);
    return (uint64_t)((int64_t)value >> (64 - bits)) * INSTRUCTION_BYTES;
}

/* Return the target of adr, or of adrp, which counts pages of 4 KiB. */
static uint64_t address_target(uint32_t word, uint64_t address)
{
    uint64_t bytes = instruction_distance(word, 5, 19) | (word >> 29 & 3);
    return (word >> 31) != 0 ? (address & ~UINT64_C(4095)) + (bytes << 12) : address + bytes;
}

static struct instruction decode_literal(uint32_t word, uint64_t address)
{
    struct instruction instruction = {INSTRUCTION_LOAD, word,
                                      address + instruction_distance(word, 5, 19)};
    bool is_vector = (word >> 26 & 1) != 0, has_size_3 = word >> 30 == 3;
    if (has_size_3)
        instruction.kind = is_vector ? INSTRUCTION_UNKNOWN : INSTRUCTION_PREFETCH;
    else if (!is_vector && instruction_register(word) == 31)
        instruction.kind = INSTRUCTION_UNKNOWN; /* no register to load its address into */
    return instruction;
}

/* Branches, exceptions and system instructions. */
static struct instruction decode_branch(uint32_t word, uint64_t address)
{
    struct instruction instruction = {INSTRUCTION_UNKNOWN, word, 0};
    if ((word & 0x7c000000) == 0x14000000) {
        instruction.kind = word >> 31 != 0 ? INSTRUCTION_CALL : INSTRUCTION_JUMP;
        instruction.target = address + instruction_distance(word, 0, 26);
    } else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
        instruction.kind = INSTRUCTION_CONDITION;
        instruction.target = address + instruction_distance(word, 5, 19);
    } else if ((word & 0x7e000000) == 0x36000000) {
        instruction.kind = INSTRUCTION_CONDITION;
        instruction.target = address + instruction_distance(word, 5, 14);
    } else if ((word & 0xfe1f0000) == 0xd61f0000) {
        unsigned operation = word >> 21 & 15;
        if (operation == 2 || (operation & 7) == 0)
            instruction.kind = INSTRUCTION_LEAVE;
        else if ((operation & 7) == 1)
            instruction.kind = INSTRUCTION_CALL;
    } else if ((word & 0xff000000) == 0xd4000000 || (word & 0xff000000) == 0xd5000000) {
        instruction.kind = word == PACM ? INSTRUCTION_UNKNOWN : INSTRUCTION_PLAIN;
    }
    return instruction;
}

/* Return whether it signs or checks a return address with the pc (FEAT_PAuth_LR). */
static bool signs_with_pc(uint32_t word)
{
    return (word & 0xff800000) == 0xf3800000 || (word & 0xfffffbff) == 0xdac1a3fe ||
           (word & 0xfffffbff) == 0xdac183fe;
}

struct instruction instruction_decode(uint32_t word, uint64_t address)
{
    struct instruction instruction = {INSTRUCTION_PLAIN, word, 0};
    unsigned group = word >> 25 & 15;
    if ((group == 0 && word >> 31 == 0) || group == 1 || group == 3 || signs_with_pc(word))
        instruction.kind = INSTRUCTION_UNKNOWN;
    else if ((word & 0x1c000000) == 0x14000000)
        return decode_branch(word, address);
    else if ((word & 0x3b000000) == 0x18000000)
        return decode_literal(word, address);
    else if ((word & 0x1f000000) == 0x10000000)
        instruction =
            (struct instruction){INSTRUCTION_ADDRESS, word, address_target(word, address)};
    return instruction;
}

bool instruction_is_landing_pad(uint32_t word)
{
    return word == BTI_C || word == BTI_J || word == BTI_JC;
}

bool instruction_signs_return(uint32_t word)
{
    return word == PACIASP || word == PACIBSP;
}

bool instruction_is_padding(uint32_t word)
{
    return word == NOP || word == 0;
}

bool instruction_may_use(const struct instruction *instruction, unsigned number)
{
    static const unsigned fields[] = {0, 5, 10, 16};
    size_t count = sizeof(fields) / sizeof(fields[0]);
    uint32_t word = instruction->word;
    switch (instruction->kind) {
    case INSTRUCTION_JUMP:
    case INSTRUCTION_PREFETCH:
        return false;
    case INSTRUCTION_LOAD:
        if ((word >> 26 & 1) != 0)
            return false; /* a vector register */
        /* fall through */
    case INSTRUCTION_CONDITION:
    case INSTRUCTION_ADDRESS:
        count = 1; /* the other bits are the distance */
        break;
    default:
        break;
    }
    for (size_t i = 0; i < count; i++) {
        if ((word >> fields[i] & 31) == number)
            return true;
    }
    return false;
}
