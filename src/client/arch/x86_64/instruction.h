/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of x86-64 instructions, with the parts that say how control and the stack pointer move.
 * Knows the instructions of compilers and of hand-written libraries: all of the one-byte opcodes,
 * the maps 0F, 0F38 and 0F3A, and VEX. Others (EVEX, XOP) are refused.
 */
#ifndef HEAPPROFD_CLIENT_ARCH_X86_64_INSTRUCTION_H
#define HEAPPROFD_CLIENT_ARCH_X86_64_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

#define INSTRUCTION_BYTES_MAX 15u

struct instruction {
    uint8_t length;
    uint8_t map;    /* 0: one byte; 1: 0F; 2: 0F38; 3: 0F3A */
    uint8_t opcode; /* in its map */
    uint8_t rex;    /* 0: none */
    bool is_vex;
    bool has_modrm;
    uint8_t mod, reg, rm; /* of ModRM; reg and rm with their bits in REX */
    int32_t displacement; /* of a memory operand */
    int64_t immediate;
    bool is_rip_relative;
    bool rm_is_plain; /* memory operand: displacement(rm) without an index, rm as extended */
};

/* Decode the instruction at `code`, of which `bytes` may be read. Return false if it is not known,
 * or longer. */
bool instruction_decode(struct instruction *found, const uint8_t *code, uintptr_t bytes);

#endif
