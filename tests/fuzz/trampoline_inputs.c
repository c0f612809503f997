/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions that fuzz_trampoline may run, and the redirection of their operands. */
#include "trampoline_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void input_fail(const char *what)
{
    fprintf(stderr, "fuzz_trampoline: %s\n", what);
    abort();
}

bool input_decode(const uint8_t *code, size_t length, ZydisDecodedInstruction *decoded,
                  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT])
{
    static ZydisDecoder decoder;
    static bool is_made;
    if (!is_made)
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    is_made = true;
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, length, decoded, operands));
}

static bool is_harmless(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operands)
{
    switch (decoded->meta.isa_ext) {
    case ZYDIS_ISA_EXT_ADOX_ADCX:
    case ZYDIS_ISA_EXT_AES:
    case ZYDIS_ISA_EXT_AVX:
    case ZYDIS_ISA_EXT_AVX2:
    case ZYDIS_ISA_EXT_BASE:
    case ZYDIS_ISA_EXT_BMI1:
    case ZYDIS_ISA_EXT_BMI2:
    case ZYDIS_ISA_EXT_CET:
    case ZYDIS_ISA_EXT_F16C:
    case ZYDIS_ISA_EXT_FMA:
    case ZYDIS_ISA_EXT_LONGMODE:
    case ZYDIS_ISA_EXT_LZCNT:
    case ZYDIS_ISA_EXT_MMX:
    case ZYDIS_ISA_EXT_MOVBE:
    case ZYDIS_ISA_EXT_PAUSE:
    case ZYDIS_ISA_EXT_PCLMULQDQ:
    case ZYDIS_ISA_EXT_SSE:
    case ZYDIS_ISA_EXT_SSE2:
    case ZYDIS_ISA_EXT_SSE3:
    case ZYDIS_ISA_EXT_SSE4:
    case ZYDIS_ISA_EXT_SSSE3:
    case ZYDIS_ISA_EXT_X87:
        break;
    default:
        return false;
    }
    switch (decoded->meta.category) {
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SEGOP:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_XSAVE:
        return false;
    default:
        break;
    }
    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_FNSAVE: /* these store addresses of code */
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_POPF: /* could make every unaligned access fault */
    case ZYDIS_MNEMONIC_POPFD:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_PUSHF: /* would store the single-step flag */
    case ZYDIS_MNEMONIC_PUSHFD:
    case ZYDIS_MNEMONIC_PUSHFQ:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_LAR:
    case ZYDIS_MNEMONIC_LSL:
    case ZYDIS_MNEMONIC_VERR:
    case ZYDIS_MNEMONIC_VERW:
        return false;
    default:
        break;
    }
    if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
        return false;
    /* The bit index of BT and similar instructions, in a register, reaches far from the address. */
    if (decoded->meta.category == ZYDIS_CATEGORY_BITBYTE &&
        operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
        operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
        return false;
    for (unsigned i = 0; i < decoded->operand_count; i++) {
        const ZydisDecodedOperand *operand = &operands[i];
        bool written = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && written &&
            operand->mem.segment == ZYDIS_REGISTER_FS)
            return false;
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
            operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
            return false; /* many addresses */
        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && written &&
            ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_SEGMENT)
            return false;
    }
    return true;
}

static bool is_own_place(uint64_t address)
{
    return address + 0x40 >= FUNCTION && address < FUNCTION + INPUT_BYTES_MAX + 0x40;
}

/* Redirect a pc-relative operand to mapped memory: data, or int3. */
static void redirect(uint8_t *code, size_t at, const ZydisDecodedInstruction *decoded,
                     const ZydisDecodedOperand *operands)
{
    uint64_t end = FUNCTION + at + decoded->length;
    int32_t value;
    if (decoded->raw.imm[0].is_relative && decoded->raw.imm[0].size == 32) {
        memcpy(&value, code + at + decoded->raw.imm[0].offset, 4);
        uint64_t to = CODE + ((uint32_t)value & 0xfff);
        if (is_own_place(to))
            to = CODE;
        value = (int32_t)(to - end);
        memcpy(code + at + decoded->raw.imm[0].offset, &value, 4);
        return;
    }
    for (unsigned i = 0; i < decoded->operand_count; i++) {
        ZydisRegister base = operands[i].mem.base;
        if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY && decoded->raw.disp.size == 32 &&
            (base == ZYDIS_REGISTER_RIP || base == ZYDIS_REGISTER_EIP)) {
            memcpy(&value, code + at + decoded->raw.disp.offset, 4);
            value = (int32_t)(DATA + 0x800 + ((uint32_t)value & 0xfff) - end);
            memcpy(code + at + decoded->raw.disp.offset, &value, 4);
            return;
        }
    }
}

/* Return whether it is a branch into the function, whose target may be patched. */
static bool is_branch_to_itself(size_t at, const ZydisDecodedInstruction *decoded)
{
    uint64_t end = FUNCTION + at + decoded->length;
    return decoded->raw.imm[0].is_relative &&
           is_own_place(end + (uint64_t)decoded->raw.imm[0].value.s);
}

void input_redirect(uint8_t *code, size_t length)
{
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    for (size_t at = 0; at < length && at < 20; at += decoded.length) {
        if (!input_decode(code + at, length - at, &decoded, operands))
            return;
        redirect(code, at, &decoded, operands);
    }
}

bool input_may_run(const struct trampoline *trampoline, unsigned *count)
{
    const struct attached_site *site = &trampoline->site;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    *count = 0;
    for (size_t at = 0; at < site->length; at += decoded.length) {
        if (!input_decode(site->original + at, site->length - at, &decoded, operands))
            return false;
        /* After the last one there may be padding. */
        if (*count < trampoline->instruction_count && trampoline->instructions[*count].before != at)
            input_fail("another decoder finds other instructions");
        if (!is_harmless(&decoded, operands) ||
            is_branch_to_itself(site->address - FUNCTION + at, &decoded))
            return false;
        (*count)++;
    }
    return true;
}
