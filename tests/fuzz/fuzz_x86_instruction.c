/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of x86-64 beside another one, Zydis: what both know has the same length, the same
 * operand relative to rip, and the same branch. The input is code.
 */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/x86_instruction.h"

static void compare(const uint8_t *code, size_t length, const char *what, int64_t ours,
                    int64_t theirs)
{
    if (ours == theirs)
        return;
    fprintf(stderr, "%s: %lld, but %lld:", what, (long long)ours, (long long)theirs);
    for (size_t i = 0; i < length; i++)
        fprintf(stderr, " %02x", code[i]);
    fprintf(stderr, "\n");
    abort();
}

static bool has_operand_at_rip(const ZydisDecodedInstruction *known,
                               const ZydisDecodedOperand *operands)
{
    for (unsigned i = 0; i < known->operand_count; i++) {
        ZydisRegister base = operands[i].mem.base;
        if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            (base == ZYDIS_REGISTER_RIP || base == ZYDIS_REGISTER_EIP))
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction known;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < size;) {
        const uint8_t *code = data + at;
        struct x86_instruction found;
        bool is_found = x86_instruction_decode(&found, code, size - at);
        bool is_known =
            ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size - at, &known, operands));
        at += is_found ? found.length : is_known ? known.length : 1;
        if (!is_found || !is_known)
            continue;
        compare(code, known.length, "length", found.length, known.length);
        compare(code, known.length, "opcode", found.opcode, known.opcode);
        compare(code, known.length, "at rip", found.is_rip_relative,
                has_operand_at_rip(&known, operands));
        if (found.is_rip_relative) {
            compare(code, known.length, "place", found.displacement_at, known.raw.disp.offset);
            compare(code, known.length, "displacement", found.displacement, known.raw.disp.value);
        }
        if (known.raw.imm[0].is_relative)
            compare(code, known.length, "target", found.immediate, known.raw.imm[0].value.s);
        compare(code, known.length, "operand size", found.has_66 && found.map == 0 && !found.is_vex,
                (known.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) != 0 && found.map == 0 &&
                    !found.is_vex);
    }
    return 0;
}
