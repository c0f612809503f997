/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of x86-64 instructions, with the parts that say how control and the stack pointer move,
 * and what depends on the instruction's own address. Knows the instructions of compilers and of
 * hand-written libraries: all of the one-byte opcodes, the maps 0F, 0F38 and 0F3A, VEX and EVEX.
 * Others (XOP, APX) are refused.
 */
#ifndef HEAPPROFD_WIRE_X86_INSTRUCTION_H
#define HEAPPROFD_WIRE_X86_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

#define X86_INSTRUCTION_BYTES_MAX 15u

struct x86_instruction {
    uint8_t length;
    uint8_t map;         /* 0: one byte; 1: 0F; 2: 0F38; 3: 0F3A; 5, 6: of EVEX */
    uint8_t opcode;      /* in its map */
    uint8_t rex;         /* 0: none */
    bool has_66, has_67; /* prefixes of the size of operands and of addresses */
    bool is_vex;         /* VEX or EVEX */
    bool is_evex;        /* a displacement of one byte counts operands then */
    bool has_modrm;
    uint8_t mod, reg, rm; /* of ModRM; reg and rm with their bits in REX */
    int32_t displacement; /* of a memory operand */
    int64_t immediate;
    bool is_rip_relative;
    uint8_t displacement_at; /* offset of the displacement, if it is relative to rip */
    bool rm_is_plain;        /* memory operand: displacement(rm) without an index, rm as extended */
};

/* Decode the instruction at `code`, of which `bytes` may be read. Return false if it is not known,
 * or longer. */
bool x86_instruction_decode(struct x86_instruction *found, const uint8_t *code, uintptr_t bytes);

#endif
