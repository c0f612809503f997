/* SPDX-License-Identifier: Apache-2.0 */
/* Build trampolines from the first instructions of functions: x86-64, decoded by Zydis. An entry
 * becomes `jmp rel32`. */
#include "recorder/attach/trampoline.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* `jmp rel32`. */
#define JUMP_BYTES 5u

/* Bytes of a function that are searched for jumps back to its own entry. */
#define BODY_BYTES_MAX (64u << 10)

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

struct instruction {
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const ZydisDecoder *decoder, const uint8_t *code, size_t length,
                   struct instruction *instruction)
{
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, length, &instruction->decoded,
                                               instruction->operands));
}

static bool is_branch(const struct instruction *instruction)
{
    return (instruction->decoded.attributes & ZYDIS_ATTRIB_IS_RELATIVE) != 0 &&
           instruction->decoded.raw.imm[0].is_relative;
}

static uint64_t branch_target(const struct instruction *instruction, uint64_t address)
{
    return address + instruction->decoded.length +
           (uint64_t)instruction->decoded.raw.imm[0].value.s;
}

/* Return whether execution never continues after the instruction. */
static bool is_last(const struct instruction *instruction)
{
    return instruction->decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
           instruction->decoded.meta.category == ZYDIS_CATEGORY_RET;
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

static bool move_branch(struct trampoline *trampoline, const struct instruction *instruction,
                        uint64_t from, uint64_t to, const char **why)
{
    static const uint8_t jump[] = {0xe9};
    const ZydisDecodedInstruction *decoded = &instruction->decoded;
    uint64_t target = branch_target(instruction, from);
    /* With prefix 66, AMD's processors jump by 16 bits to a 16-bit address, Intel's by 32 bits. */
    *why = "it begins with a jump that processors decode differently";
    if ((decoded->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) != 0)
        return false;
    *why = begins_with_call;
    if (decoded->meta.category == ZYDIS_CATEGORY_CALL)
        return false;
    *why = "its first instructions jump too far to be moved";
    if (decoded->meta.category == ZYDIS_CATEGORY_UNCOND_BR)
        return put_relative(trampoline, jump, sizeof(jump), to, target);
    if (decoded->meta.category == ZYDIS_CATEGORY_COND_BR) {
        /* The low half of the opcode, 7x or 0f 8x, is the condition. jcxz and loop have none. */
        uint8_t opcode = decoded->opcode;
        bool has_condition =
            (decoded->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (opcode & 0xf0) == 0x70) ||
            (decoded->opcode_map == ZYDIS_OPCODE_MAP_0F && (opcode & 0xf0) == 0x80);
        const uint8_t conditional[] = {0x0f, (uint8_t)(0x80 | (opcode & 0x0f))};
        if (has_condition)
            return put_relative(trampoline, conditional, sizeof(conditional), to, target);
    }
    *why = "it begins with a loop, which cannot be moved";
    return false;
}

static bool move_plain(struct trampoline *trampoline, const struct instruction *instruction,
                       const uint8_t *code, uint64_t from, uint64_t to, const char **why)
{
    const ZydisDecodedInstruction *decoded = &instruction->decoded;
    *why = begins_with_call;
    if (decoded->meta.category == ZYDIS_CATEGORY_CALL)
        return false;
    if (trampoline->code_bytes + decoded->length > sizeof(trampoline->code))
        return false;
    uint8_t *copy = trampoline->code + trampoline->code_bytes;
    memcpy(copy, code, decoded->length);
    for (unsigned i = 0; i < decoded->operand_count; i++) {
        const ZydisDecodedOperand *operand = &instruction->operands[i];
        if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        if (operand->mem.base == ZYDIS_REGISTER_EIP) {
            *why = "it begins with an address of 32 bits, which cannot be moved";
            return false;
        }
        if (operand->mem.base != ZYDIS_REGISTER_RIP)
            continue;
        /* Keep the address that it reads: correct the displacement by the move. */
        int64_t distance = decoded->raw.disp.value + (int64_t)(from - to);
        if (distance != (int32_t)distance || decoded->raw.disp.size != 32) {
            *why = "its first instructions read data that they could not reach once moved";
            return false;
        }
        int32_t narrow = (int32_t)distance;
        memcpy(copy + decoded->raw.disp.offset, &narrow, 4);
        break;
    }
    trampoline->code_bytes += decoded->length;
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
static bool jumps_into_entry(const ZydisDecoder *decoder, uint64_t function, const uint8_t *code,
                             size_t length, uint64_t start, uint64_t end)
{
    struct instruction instruction;
    if (length > BODY_BYTES_MAX)
        length = BODY_BYTES_MAX;
    for (size_t at = 0; at < length;) {
        if (!decode(decoder, code + at, length - at, &instruction))
            return false; /* data between code: only the code before it is searched */
        if (is_branch(&instruction)) {
            uint64_t target = branch_target(&instruction, function + at);
            if (target > start && target < end)
                return true;
        }
        at += instruction.decoded.length;
    }
    return false;
}

int trampoline_make(struct trampoline *trampoline, uint64_t function, const uint8_t *code,
                    size_t length, uint64_t hook, uint64_t at, const char **why)
{
    static const uint8_t jump[] = {0xe9};
    ZydisDecoder decoder;
    memset(trampoline, 0, sizeof(*trampoline));
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);

    size_t skipped = length >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
    uint64_t start = function + skipped;
    size_t taken = 0;
    bool ended = false;
    while (taken < JUMP_BYTES && !ended) {
        struct instruction instruction;
        const uint8_t *here = code + skipped + taken;
        uint64_t from = start + taken, to = at + trampoline->code_bytes;
        *why = "its first instructions cannot be decoded";
        if (trampoline->instruction_count == TRAMPOLINE_INSTRUCTIONS_MAX ||
            !decode(&decoder, here, length - skipped - taken, &instruction))
            return -ENOTSUP;
        trampoline->instructions[trampoline->instruction_count].before = (uint8_t)taken;
        trampoline->instructions[trampoline->instruction_count++].now =
            (uint8_t)trampoline->code_bytes;
        bool moved = is_branch(&instruction)
                         ? move_branch(trampoline, &instruction, from, to, why)
                         : move_plain(trampoline, &instruction, here, from, to, why);
        if (!moved)
            return -ENOTSUP;
        taken += instruction.decoded.length;
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
    if (jumps_into_entry(&decoder, function, code, length, start, start + taken))
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
