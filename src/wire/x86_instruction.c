/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of opcodes with a ModRM byte and of the size of their immediate operand. It calls no
 * function of a library, and is compiled into the client and into the recorder. */
#include "wire/x86_instruction.h"

#include <stddef.h>

#define REX_W 8u
#define REX_R 4u
#define REX_X 2u
#define REX_B 1u

struct reader {
    const uint8_t *start, *at, *end;
    bool failed;
};

static uint8_t next_byte(struct reader *reader)
{
    if (reader->at < reader->end)
        return *reader->at++;
    reader->failed = true;
    return 0;
}

/* Read a little-endian number with its sign. */
static int64_t next_number(struct reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)next_byte(reader) << (8 * i);
    unsigned unused = 64 - 8 * bytes;
    return bytes == 0 ? 0 : (int64_t)(value << unused) >> unused;
}

static bool is_in(const uint8_t *ranges, size_t count, uint8_t opcode)
{
    for (size_t i = 0; i + 1 < count; i += 2) {
        if (opcode >= ranges[i] && opcode <= ranges[i + 1])
            return true;
    }
    return false;
}

#define IS_IN(ranges, opcode) is_in(ranges, sizeof(ranges), opcode)

/* Ranges of opcodes: first and last. */
static bool one_byte_has_modrm(uint8_t opcode)
{
    static const uint8_t ranges[] = {0x63, 0x63, 0x69, 0x69, 0x6b, 0x6b, 0x80, 0x8f, 0xc0, 0xc1,
                                     0xc6, 0xc7, 0xd0, 0xd3, 0xd8, 0xdf, 0xf6, 0xf7, 0xfe, 0xff};
    return (opcode < 0x40 && (opcode & 7) < 4) || IS_IN(ranges, opcode);
}

/* Prefixes are no opcodes: after REX, they make it void. */
static bool is_invalid(uint8_t opcode)
{
    static const uint8_t ranges[] = {0x06, 0x07, 0x0e, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x26,
                                     0x27, 0x2e, 0x2f, 0x36, 0x37, 0x3e, 0x4f, 0x60, 0x62,
                                     0x64, 0x67, 0x82, 0x82, 0x9a, 0x9a, 0xc4, 0xc5, 0xce,
                                     0xce, 0xd4, 0xd6, 0xea, 0xea, 0xf0, 0xf0, 0xf2, 0xf3};
    return IS_IN(ranges, opcode);
}

/* Return the size of the immediate operand of a one-byte opcode. `full`: 2 with the prefix 66,
 * else 4. */
static unsigned one_byte_immediate(const struct x86_instruction *found, unsigned full)
{
    static const uint8_t byte[] = {0x6a, 0x6b, 0x70, 0x80, 0x83, 0x83, 0xa8, 0xa8, 0xb0, 0xb7,
                                   0xc0, 0xc1, 0xc6, 0xc6, 0xcd, 0xcd, 0xe0, 0xe7, 0xeb, 0xeb};
    static const uint8_t word[] = {0x68, 0x69, 0x81, 0x81, 0xa9, 0xa9, 0xc7, 0xc7};
    uint8_t opcode = found->opcode;
    if (opcode < 0x40 && (opcode & 7) == 4)
        return 1;
    if (opcode < 0x40 && (opcode & 7) == 5)
        return full;
    if (opcode == 0xf6 || opcode == 0xf7)
        return (found->reg & 7) > 1 ? 0 : opcode == 0xf6 ? 1 : full;
    if (opcode >= 0xb8 && opcode <= 0xbf)
        return found->rex & REX_W ? 8 : full;
    if (opcode >= 0xa0 && opcode <= 0xa3)
        return found->has_67 ? 4 : 8;
    if (opcode == 0xe8 || opcode == 0xe9)
        return 4;
    if (opcode == 0xc2 || opcode == 0xca)
        return 2;
    if (opcode == 0xc8)
        return 3;
    return IS_IN(byte, opcode) ? 1 : IS_IN(word, opcode) ? full : 0;
}

static bool two_byte_has_modrm(uint8_t opcode)
{
    static const uint8_t without[] = {0x05, 0x09, 0x0b, 0x0b, 0x0e, 0x0e, 0x30, 0x37, 0x77,
                                      0x77, 0x80, 0x8f, 0xa0, 0xa2, 0xa8, 0xaa, 0xc8, 0xcf};
    return !IS_IN(without, opcode);
}

/* Not known: moves of control registers, whose ModRM has no memory operand, and what no compiler
 * writes. SSE4a has opcode 78 with a prefix and two immediate operands. */
static bool two_byte_is_unknown(const struct x86_instruction *found)
{
    static const uint8_t ranges[] = {0x04, 0x04, 0x0a, 0x0a, 0x0c, 0x0c, 0x0f, 0x0f, 0x20, 0x27,
                                     0x36, 0x36, 0x39, 0x39, 0x3b, 0x3f, 0x7a, 0x7b, 0xa6, 0xa7};
    static const uint8_t only_legacy[] = {0x00, 0x0f, 0x30, 0x3f, 0x80, 0x8f, 0xa0, 0xad};
    if (found->is_vex)
        return IS_IN(only_legacy, found->opcode);
    return IS_IN(ranges, found->opcode) || found->opcode == 0x78;
}

static unsigned two_byte_immediate(uint8_t opcode)
{
    static const uint8_t byte[] = {0x70, 0x73, 0xa4, 0xa4, 0xac, 0xac,
                                   0xba, 0xba, 0xc2, 0xc2, 0xc4, 0xc6};
    return opcode >= 0x80 && opcode <= 0x8f ? 4 : IS_IN(byte, opcode) ? 1 : 0;
}

/* Read ModRM, SIB and displacement. */
static void read_operand(struct reader *reader, struct x86_instruction *found)
{
    uint8_t modrm = next_byte(reader);
    found->has_modrm = true;
    found->mod = modrm >> 6;
    found->reg = (uint8_t)((modrm >> 3 & 7) | (found->rex & REX_R ? 8 : 0));
    uint8_t rm = modrm & 7;
    bool has_base = true, has_index = false;
    if (found->mod != 3 && rm == 4) {
        uint8_t sib = next_byte(reader);
        rm = sib & 7;
        has_index = (sib >> 3 & 7) != 4 || (found->rex & REX_X) != 0;
        has_base = found->mod != 0 || rm != 5;
        if (!has_base)
            found->displacement = (int32_t)next_number(reader, 4);
    } else if (found->mod == 0 && rm == 5) {
        has_base = false;
        found->is_rip_relative = true;
        found->displacement_at = (uint8_t)(reader->at - reader->start);
        found->displacement = (int32_t)next_number(reader, 4);
    }
    if (found->mod == 1 || found->mod == 2)
        found->displacement = (int32_t)next_number(reader, found->mod == 1 ? 1 : 4);
    found->rm = (uint8_t)(rm | (found->rex & REX_B ? 8 : 0));
    found->rm_is_plain = found->mod != 3 && has_base && !has_index;
}

/* Read the prefixes. Return the first other byte. */
static uint8_t read_prefixes(struct reader *reader, struct x86_instruction *found)
{
    static const uint8_t prefixes[] = {0x26, 0x26, 0x2e, 0x2e, 0x36, 0x36, 0x3e,
                                       0x3e, 0x64, 0x67, 0xf0, 0xf0, 0xf2, 0xf3};
    for (;;) {
        uint8_t byte = next_byte(reader);
        if (!IS_IN(prefixes, byte))
            return byte;
        found->has_66 |= byte == 0x66;
        found->has_67 |= byte == 0x67;
    }
}

static void read_vex(struct reader *reader, struct x86_instruction *found, uint8_t first)
{
    uint8_t byte = next_byte(reader);
    found->is_vex = true;
    found->map = 1;
    found->rex = byte & 0x80 ? 0 : REX_R;
    if (first == 0xc4) {
        found->map = byte & 0x1f;
        found->rex |= (uint8_t)((byte & 0x40 ? 0 : REX_X) | (byte & 0x20 ? 0 : REX_B));
        next_byte(reader);
    }
    found->opcode = next_byte(reader);
}

/* Return false for the form with sixteen more registers (APX), which is not known. */
static bool read_evex(struct reader *reader, struct x86_instruction *found)
{
    uint8_t first = next_byte(reader), second = next_byte(reader);
    next_byte(reader);
    found->is_vex = found->is_evex = true;
    found->map = first & 7;
    found->rex = (uint8_t)((first & 0x80 ? 0 : REX_R) | (first & 0x40 ? 0 : REX_X) |
                           (first & 0x20 ? 0 : REX_B));
    found->opcode = next_byte(reader);
    return (first & 8) == 0 && (second & 4) != 0;
}

static bool read_opcode(struct reader *reader, struct x86_instruction *found, uint8_t byte)
{
    if (byte == 0xc4 || byte == 0xc5) {
        read_vex(reader, found, byte);
        return true;
    }
    if (byte == 0x62)
        return read_evex(reader, found);
    if ((byte & 0xf0) == 0x40) {
        found->rex = byte;
        byte = next_byte(reader);
    }
    if (byte == 0x0f) {
        found->map = 1;
        byte = next_byte(reader);
        if (byte == 0x38 || byte == 0x3a) {
            found->map = byte == 0x38 ? 2 : 3;
            byte = next_byte(reader);
        }
    }
    found->opcode = byte;
    return true;
}

bool x86_instruction_decode(struct x86_instruction *found, const uint8_t *code, uintptr_t bytes)
{
    if (bytes > X86_INSTRUCTION_BYTES_MAX)
        bytes = X86_INSTRUCTION_BYTES_MAX;
    struct reader reader = {.start = code, .at = code, .end = code + bytes};
    *found = (struct x86_instruction){0};
    if (!read_opcode(&reader, found, read_prefixes(&reader, found)))
        return false;
    unsigned full = found->has_66 && !(found->rex & REX_W) ? 2 : 4, immediate;
    switch (found->map) {
    case 0:
        if (found->is_vex || is_invalid(found->opcode))
            return false;
        if (one_byte_has_modrm(found->opcode))
            read_operand(&reader, found);
        if (found->opcode == 0x8f && (found->reg & 7) != 0) /* XOP */
            return false;
        immediate = one_byte_immediate(found, full);
        break;
    case 1:
        if (two_byte_is_unknown(found))
            return false;
        if (two_byte_has_modrm(found->opcode))
            read_operand(&reader, found);
        immediate = two_byte_immediate(found->opcode);
        break;
    case 2:
    case 3:
        read_operand(&reader, found);
        immediate = found->map == 3 ? 1 : 0;
        break;
    case 5: /* half precision; only EVEX has these maps */
    case 6:
        if (!found->is_evex)
            return false;
        read_operand(&reader, found);
        immediate = 0;
        break;
    default:
        return false;
    }
    found->immediate = next_number(&reader, immediate);
    found->length = (uint8_t)(reader.at - code);
    return !reader.failed;
}
