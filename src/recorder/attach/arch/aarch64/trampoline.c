/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build trampolines from the first instructions of functions: aarch64.
 *
 * An entry becomes `b hook`, one instruction of 4 bytes: no thread can be in the middle of it, and
 * nothing else of the function moves. Its reach of 128 MiB is enough because the client is mapped
 * near the allocator. Only if there is no room near it, or for a function of another library, 16
 * bytes become a jump through x16, which the calling convention leaves to such jumps.
 *
 * An indirect call may only land on certain instructions (BTI). The instruction `bti` stays, and
 * what follows it is replaced. `paciasp`, which signs the return address and is such an instruction
 * as well, moves; `bti c` takes its place, and the jump that of the next one.
 */
#include "recorder/attach/trampoline.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "recorder/attach/arch/aarch64/instruction.h"

#define BTI_C 0xd503245fu
#define NOP 0xd503201fu
#define JUMP 0x14000000u     /* b */
#define LOAD_X16 0x58000050u /* ldr x16, [pc + 8] */
#define JUMP_X16 0xd61f0200u /* br x16 */
#define RETURN 0xd65f0000u   /* ret: a jump that needs no landing pad */
#define FAR_JUMP_BYTES 16u

/* The registers that far jumps may change: a linker's veneers change them as well. */
static const unsigned scratch_registers[] = {17, 16};

#define JUMP_REACH (INT64_C(1) << 27)

/* Bytes of a function that are searched for jumps back to its own entry. */
#define BODY_BYTES_MAX (64u << 10)

/* The trampoline in the making. */
struct builder {
    struct trampoline *trampoline;
    unsigned scratch; /* a register for far jumps */
    bool uses_scratch;
    bool is_full;
};

static uint32_t word_at(const uint8_t *code)
{
    uint32_t word;
    memcpy(&word, code, sizeof(word));
    return word;
}

static bool reaches(uint64_t from, uint64_t to)
{
    int64_t bytes = (int64_t)(to - from);
    return bytes >= -JUMP_REACH && bytes < JUMP_REACH && bytes % 4 == 0;
}

static uint32_t jump(uint64_t from, uint64_t to)
{
    return JUMP | ((uint32_t)((int64_t)(to - from) / 4) & 0x3ffffff);
}

static void trampoline_put(struct builder *builder, uint32_t word)
{
    struct trampoline *trampoline = builder->trampoline;
    if (trampoline->code_bytes + sizeof(word) > sizeof(trampoline->code)) {
        builder->is_full = true;
        return;
    }
    memcpy(trampoline->code + trampoline->code_bytes, &word, sizeof(word));
    trampoline->code_bytes += sizeof(word);
}

/* Put a value into a register: movz and movk. */
static void put_value(struct builder *builder, unsigned number, uint64_t value)
{
    trampoline_put(builder, 0xd2800000 | (uint32_t)(value & 0xffff) << 5 | number);
    for (unsigned half = 1; half < 4; half++) {
        uint32_t part = (uint32_t)(value >> 16 * half) & 0xffff;
        if (part != 0)
            trampoline_put(builder, 0xf2800000 | half << 21 | part << 5 | number);
    }
}

static void put_jump(struct builder *builder, uint64_t to)
{
    uint64_t from = builder->trampoline->site.trampoline + builder->trampoline->code_bytes;
    if (reaches(from, to)) {
        trampoline_put(builder, jump(from, to));
        return;
    }
    builder->uses_scratch = true;
    put_value(builder, builder->scratch, to);
    trampoline_put(builder, RETURN | builder->scratch << 5);
}

/* --- moving one instruction --- */

/* Jump if the condition holds: a branch with the opposite condition skips the jump. */
static void put_condition(struct builder *builder, const struct instruction *instruction)
{
    uint32_t word = instruction->word;
    bool is_test = (word & 0x7e000000) == 0x36000000, has_flags = word >> 24 == 0x54;
    if (has_flags && (word & 14) == 14) { /* always */
        put_jump(builder, instruction->target);
        return;
    }
    uint8_t *code = builder->trampoline->code;
    size_t at = builder->trampoline->code_bytes;
    trampoline_put(builder, word);
    put_jump(builder, instruction->target);
    if (builder->is_full)
        return;
    uint32_t words = (uint32_t)(builder->trampoline->code_bytes - at) / 4;
    uint32_t opposite = word ^ (has_flags ? 1u : 1u << 24);
    opposite &= is_test ? ~(UINT32_C(0x3fff) << 5) : ~(UINT32_C(0x7ffff) << 5);
    opposite |= words << 5;
    memcpy(code + at, &opposite, sizeof(opposite));
}

/* Load from the literal's address: through the loaded register itself, or the scratch register. */
static void put_load(struct builder *builder, const struct instruction *instruction)
{
    static const uint32_t general[] = {0xb9400000, 0xf9400000, 0xb9800000};
    static const uint32_t vector[] = {0xbd400000, 0xfd400000, 0x3dc00000};
    unsigned to = instruction_register(instruction->word), size = instruction->word >> 30;
    bool is_vector = (instruction->word >> 26 & 1) != 0;
    unsigned address = is_vector ? builder->scratch : to;
    builder->uses_scratch |= is_vector;
    put_value(builder, address, instruction->target);
    trampoline_put(builder, (is_vector ? vector : general)[size] | address << 5 | to);
}

static bool move(struct builder *builder, const struct instruction *instruction, const char **why)
{
    switch (instruction->kind) {
    case INSTRUCTION_PLAIN:
    case INSTRUCTION_LEAVE:
        trampoline_put(builder, instruction->word);
        break;
    case INSTRUCTION_ADDRESS:
        put_value(builder, instruction_register(instruction->word), instruction->target);
        break;
    case INSTRUCTION_LOAD:
        put_load(builder, instruction);
        break;
    case INSTRUCTION_PREFETCH:
        trampoline_put(builder, NOP);
        break;
    case INSTRUCTION_JUMP:
        put_jump(builder, instruction->target);
        break;
    case INSTRUCTION_CONDITION:
        put_condition(builder, instruction);
        break;
    case INSTRUCTION_CALL:
        *why = "it begins with a call, which cannot be moved";
        return false;
    default:
        *why = "its first instructions cannot be decoded";
        return false;
    }
    *why = "its first instructions take too much room once moved";
    return !builder->is_full;
}

/* --- the whole trampoline --- */

static bool is_padding(const uint8_t *code, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += INSTRUCTION_BYTES) {
        if (!instruction_is_padding(word_at(code + at)))
            return false;
    }
    return true;
}

/* Return whether the function jumps to a replaced instruction other than the first. */
static bool jumps_into_entry(uint64_t function, const uint8_t *code, size_t length, uint64_t start,
                             uint64_t end)
{
    if (length > BODY_BYTES_MAX)
        length = BODY_BYTES_MAX;
    for (size_t at = 0; at + INSTRUCTION_BYTES <= length; at += INSTRUCTION_BYTES) {
        struct instruction instruction = instruction_decode(word_at(code + at), function + at);
        bool jumps = instruction.kind == INSTRUCTION_JUMP ||
                     instruction.kind == INSTRUCTION_CONDITION ||
                     instruction.kind == INSTRUCTION_CALL;
        if (jumps && instruction.target > start && instruction.target < end)
            return true;
    }
    return false;
}

/* Move the instructions in the first `bytes` bytes of the entry, or fewer if the function ends
 * before. Return false with the reason. */
static bool move_entry(struct builder *builder, const uint8_t *code, size_t bytes, const char **why)
{
    struct trampoline *trampoline = builder->trampoline;
    bool may_use_scratch = false, ended = false;
    size_t taken = 0;
    for (; taken < bytes && !ended; taken += INSTRUCTION_BYTES) {
        struct instruction instruction =
            instruction_decode(word_at(code + taken), trampoline->site.address + taken);
        trampoline->instructions[trampoline->instruction_count].before = (uint8_t)taken;
        trampoline->instructions[trampoline->instruction_count++].now =
            (uint8_t)trampoline->code_bytes;
        if (!move(builder, &instruction, why))
            return false;
        may_use_scratch |= instruction_may_use(&instruction, builder->scratch);
        ended = instruction.kind == INSTRUCTION_JUMP || instruction.kind == INSTRUCTION_LEAVE;
    }
    *why = "it is shorter than a jump";
    if (!is_padding(code + taken, bytes - taken))
        return false;
    if (!ended)
        put_jump(builder, trampoline->site.address + bytes);
    *why = "its first instructions take too much room once moved";
    if (builder->is_full)
        return false;
    *why = "its first instructions use a register that a far jump changes";
    return !builder->uses_scratch || !may_use_scratch;
}

/* Write the jump to the hook that replaces the entry. */
static void patch_entry(struct attached_site *site, uint64_t hook, bool with_landing_pad,
                        bool is_near)
{
    const uint32_t landing_pad = BTI_C, far[] = {LOAD_X16, JUMP_X16};
    uint8_t *to = site->patched;
    if (with_landing_pad) {
        memcpy(to, &landing_pad, sizeof(landing_pad));
        to += sizeof(landing_pad);
    }
    if (is_near) {
        uint32_t near = jump(site->address + (uint64_t)(to - site->patched), hook);
        memcpy(to, &near, sizeof(near));
    } else {
        memcpy(to, far, sizeof(far));
        memcpy(to + sizeof(far), &hook, sizeof(hook));
    }
}

int trampoline_make(struct trampoline *trampoline, uint64_t function, const uint8_t *code,
                    size_t length, uint64_t hook, uint64_t at, const char **why)
{
    *why = "it is shorter than a jump";
    if (length < INSTRUCTION_BYTES)
        return -ENOTSUP;
    size_t skipped = instruction_is_landing_pad(word_at(code)) ? INSTRUCTION_BYTES : 0;
    uint64_t start = function + skipped;
    bool is_near = reaches(start, hook) && reaches(start + INSTRUCTION_BYTES, hook);
    bool with_landing_pad = skipped == 0 && instruction_signs_return(word_at(code));
    size_t bytes =
        (is_near ? INSTRUCTION_BYTES : FAR_JUMP_BYTES) + (with_landing_pad ? INSTRUCTION_BYTES : 0);
    if (length < skipped + bytes)
        return -ENOTSUP;
    *why = "it is not aligned";
    if (function % INSTRUCTION_BYTES != 0)
        return -ENOTSUP;
    *why = "it jumps back into its first instructions";
    if (jumps_into_entry(function, code, length, start, start + bytes))
        return -ENOTSUP;
    bool moved = false;
    for (size_t i = 0; i < 2 && !moved; i++) {
        struct builder builder = {.trampoline = trampoline, .scratch = scratch_registers[i]};
        memset(trampoline, 0, sizeof(*trampoline));
        trampoline->site.address = start;
        trampoline->site.trampoline = at;
        moved = move_entry(&builder, code + skipped, bytes, why);
    }
    if (!moved)
        return -ENOTSUP;
    trampoline->site.length = (uint32_t)bytes;
    memcpy(trampoline->site.original, code + skipped, bytes);
    patch_entry(&trampoline->site, hook, with_landing_pad, is_near);
    return 0;
}
