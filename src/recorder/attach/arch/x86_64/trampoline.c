/* SPDX-License-Identifier: Apache-2.0 */
/* Build trampolines from the first instructions of functions: x86-64. An entry becomes
 * `jmp rel32`. */
#include "recorder/attach/trampoline.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "wire/x86_instruction.h"

/* `jmp rel32`. */
#define JUMP_BYTES 5u

/* Bytes of a function that are searched for jumps back to its own entry. */
#define BODY_BYTES_MAX (64u << 10)

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

enum branch {
    BRANCH_NONE, /* to no target that the instruction names */
    BRANCH_CALL,
    BRANCH_JUMP,
    BRANCH_CONDITION, /* of the flags */
    BRANCH_OTHER,     /* loop, jrcxz, xbegin: they have no form with a larger distance */
};

/* Return the kind of a branch to a target that the instruction has relative to its end. */
static enum branch branch_kind(const struct x86_instruction *instruction)
{
    uint8_t opcode = instruction->opcode;
    if (instruction->is_vex || instruction->map > 1)
        return BRANCH_NONE;
    if (instruction->map == 1)
        return (opcode & 0xf0) == 0x80 ? BRANCH_CONDITION : BRANCH_NONE;
    if ((opcode & 0xf0) == 0x70)
        return BRANCH_CONDITION;
    if (opcode >= 0xe0 && opcode <= 0xe3)
        return BRANCH_OTHER;
    if (opcode == 0xc7 && (instruction->reg & 7) == 7)
        return BRANCH_OTHER;
    return opcode == 0xe8                     ? BRANCH_CALL
           : opcode == 0xe9 || opcode == 0xeb ? BRANCH_JUMP
                                              : BRANCH_NONE;
}

static uint64_t branch_target(const struct x86_instruction *instruction, uint64_t address)
{
    return address + instruction->length + (uint64_t)instruction->immediate;
}

/* Return the operation of an indirect call (2, 3) or jump (4, 5); 0: another instruction. */
static unsigned indirect_operation(const struct x86_instruction *instruction)
{
    bool is_group = instruction->map == 0 && !instruction->is_vex && instruction->opcode == 0xff;
    unsigned operation = instruction->reg & 7u;
    return is_group && operation >= 2 && operation <= 5 ? operation : 0;
}

/* Return whether execution never continues after the instruction. */
static bool is_last(const struct x86_instruction *instruction)
{
    uint8_t opcode = instruction->opcode;
    bool is_one_byte = instruction->map == 0 && !instruction->is_vex;
    bool returns = (opcode & 0xfe) == 0xc2 || (opcode & 0xfe) == 0xca || opcode == 0xcf;
    return (is_one_byte && returns) || branch_kind(instruction) == BRANCH_JUMP ||
           indirect_operation(instruction) >= 4;
}

/* --- moving one instruction --- */

/* A moved call would return into the trampoline. */
static const char begins_with_call[] = "it begins with a call, which cannot be moved";

static bool put_relative(struct trampoline *trampoline, const uint8_t *opcode, size_t opcode_bytes,
                         uint64_t at, uint64_t target)
{
    int64_t distance = (int64_t)(target - (at + opcode_bytes + 4));
    if (distance != (int32_t)distance ||
        trampoline->code_bytes + opcode_bytes + 4 > sizeof(trampoline->code))
        return false;
    int32_t narrow = (int32_t)distance;
    memcpy(trampoline->code + trampoline->code_bytes, opcode, opcode_bytes);
    memcpy(trampoline->code + trampoline->code_bytes + opcode_bytes, &narrow, 4);
    trampoline->code_bytes += opcode_bytes + 4;
    return true;
}

static bool move_branch(struct trampoline *trampoline, const struct x86_instruction *instruction,
                        uint64_t from, uint64_t to, const char **why)
{
    static const uint8_t jump[] = {0xe9};
    /* The low half of the opcode, 7x or 0f 8x, is the condition. */
    const uint8_t conditional[] = {0x0f, (uint8_t)(0x80 | (instruction->opcode & 0x0f))};
    uint64_t target = branch_target(instruction, from);
    /* With prefix 66, AMD's processors jump by 16 bits to a 16-bit address, Intel's by 32 bits. */
    *why = "it begins with a jump that processors decode differently";
    if (instruction->has_66)
        return false;
    *why = "its first instructions jump too far to be moved";
    switch (branch_kind(instruction)) {
    case BRANCH_JUMP:
        return put_relative(trampoline, jump, sizeof(jump), to, target);
    case BRANCH_CONDITION:
        return put_relative(trampoline, conditional, sizeof(conditional), to, target);
    case BRANCH_CALL:
        *why = begins_with_call;
        return false;
    default:
        *why = "it begins with a loop, which cannot be moved";
        return false;
    }
}

static bool move_plain(struct trampoline *trampoline, const struct x86_instruction *instruction,
                       const uint8_t *code, uint64_t from, uint64_t to, const char **why)
{
    unsigned operation = indirect_operation(instruction);
    *why = begins_with_call;
    if (operation == 2 || operation == 3)
        return false;
    if (trampoline->code_bytes + instruction->length > sizeof(trampoline->code))
        return false;
    uint8_t *copy = trampoline->code + trampoline->code_bytes;
    memcpy(copy, code, instruction->length);
    if (instruction->is_rip_relative) {
        *why = "it begins with an address of 32 bits, which cannot be moved";
        if (instruction->has_67)
            return false;
        /* Keep the address that it reads: correct the displacement by the move. */
        *why = "its first instructions read data that they could not reach once moved";
        int64_t distance = instruction->displacement + (int64_t)(from - to);
        if (distance != (int32_t)distance)
            return false;
        int32_t narrow = (int32_t)distance;
        memcpy(copy + instruction->displacement_at, &narrow, 4);
    }
    trampoline->code_bytes += instruction->length;
    return true;
}

/* --- the whole trampoline --- */

/* Return whether the bytes are alignment after a short function, which never runs. */
static bool is_padding(const uint8_t *code, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (code[i] != 0x90 && code[i] != 0xcc)
            return false;
    }
    return true;
}

/* Return whether the function jumps to a replaced byte other than the first. */
static bool jumps_into_entry(uint64_t function, const uint8_t *code, size_t length, uint64_t start,
                             uint64_t end)
{
    struct x86_instruction instruction;
    if (length > BODY_BYTES_MAX)
        length = BODY_BYTES_MAX;
    for (size_t at = 0; at < length;) {
        if (!x86_instruction_decode(&instruction, code + at, length - at))
            return false; /* data between code: only the code before it is searched */
        if (branch_kind(&instruction) != BRANCH_NONE) {
            uint64_t target = branch_target(&instruction, function + at);
            if (target > start && target < end)
                return true;
        }
        at += instruction.length;
    }
    return false;
}

int trampoline_make(struct trampoline *trampoline, uint64_t function, const uint8_t *code,
                    size_t length, uint64_t hook, uint64_t at, const char **why)
{
    static const uint8_t jump[] = {0xe9};
    memset(trampoline, 0, sizeof(*trampoline));

    size_t skipped = length >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
    uint64_t start = function + skipped;
    size_t taken = 0;
    bool ended = false;
    while (taken < JUMP_BYTES && !ended) {
        struct x86_instruction instruction;
        const uint8_t *here = code + skipped + taken;
        uint64_t from = start + taken, to = at + trampoline->code_bytes;
        *why = "its first instructions cannot be decoded";
        if (trampoline->instruction_count == TRAMPOLINE_INSTRUCTIONS_MAX ||
            !x86_instruction_decode(&instruction, here, length - skipped - taken))
            return -ENOTSUP;
        trampoline->instructions[trampoline->instruction_count].before = (uint8_t)taken;
        trampoline->instructions[trampoline->instruction_count++].now =
            (uint8_t)trampoline->code_bytes;
        bool moved = branch_kind(&instruction) != BRANCH_NONE
                         ? move_branch(trampoline, &instruction, from, to, why)
                         : move_plain(trampoline, &instruction, here, from, to, why);
        if (!moved)
            return -ENOTSUP;
        taken += instruction.length;
        ended = is_last(&instruction);
    }
    if (taken < JUMP_BYTES) {
        size_t missing = JUMP_BYTES - taken;
        *why = "it is shorter than a jump";
        if (length - skipped < JUMP_BYTES || !is_padding(code + skipped + taken, missing))
            return -ENOTSUP;
        taken = JUMP_BYTES;
    }
    *why = "it jumps back into its first instructions";
    if (jumps_into_entry(function, code, length, start, start + taken))
        return -ENOTSUP;
    *why = "there is no free memory within 2 GiB of it";
    if (!ended &&
        !put_relative(trampoline, jump, sizeof(jump), at + trampoline->code_bytes, start + taken))
        return -ENOTSUP;

    struct attached_site *site = &trampoline->site;
    int64_t distance = (int64_t)(hook - (start + JUMP_BYTES));
    if (distance != (int32_t)distance || taken > ATTACHED_SITE_BYTES)
        return -ENOTSUP;
    int32_t narrow = (int32_t)distance;
    site->address = start;
    site->length = (uint32_t)taken;
    site->trampoline = at;
    memcpy(site->original, code + skipped, taken);
    memset(site->patched, 0xcc, taken); /* no thread gets there */
    site->patched[0] = jump[0];
    memcpy(site->patched + 1, &narrow, 4);
    return 0;
}
