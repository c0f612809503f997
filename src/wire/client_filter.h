/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a program's system call filter (seccomp) about the client's calls, by running it: the
 * attacher does so with filters that it reads, the preloaded client with one that is about to be
 * installed. The interpreter follows the kernel's rules for classic BPF on struct seccomp_data:
 * 32-bit words, loads from its 64 bytes, sixteen words of scratch memory.
 */
#ifndef HEAPPROFD_WIRE_CLIENT_FILTER_H
#define HEAPPROFD_WIRE_CLIENT_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/client_calls.h"

#if defined(__x86_64__)
#define CLIENT_FILTER_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CLIENT_FILTER_MACHINE AUDIT_ARCH_AARCH64
#endif

/* The registers of a running filter. */
struct filter_machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

/* The kernel refuses constant shifts of 32 bits or more, and takes shifts by X modulo 32. */
#define FILTER_SHIFT_MASK 31u

/* Run a load or a store. Return false if it is invalid. */
static inline bool filter_move(struct filter_machine *machine, uint16_t code, uint32_t k,
                               const struct seccomp_data *data)
{
    bool is_in_memory = k < BPF_MEMWORDS;
    switch (code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (k > sizeof(*data) - 4 || k % 4 != 0)
            return false;
        memcpy(&machine->a, (const char *)data + k, 4);
        return true;
    case BPF_LD | BPF_W | BPF_LEN:
        machine->a = sizeof(*data);
        return true;
    case BPF_LDX | BPF_W | BPF_LEN:
        machine->x = sizeof(*data);
        return true;
    case BPF_LD | BPF_IMM:
        machine->a = k;
        return true;
    case BPF_LDX | BPF_IMM:
        machine->x = k;
        return true;
    case BPF_LD | BPF_MEM:
        machine->a = is_in_memory ? machine->memory[k] : 0;
        return is_in_memory;
    case BPF_LDX | BPF_MEM:
        machine->x = is_in_memory ? machine->memory[k] : 0;
        return is_in_memory;
    case BPF_ST:
    case BPF_STX:
        if (is_in_memory)
            machine->memory[k] = code == BPF_ST ? machine->a : machine->x;
        return is_in_memory;
    default:
        return false;
    }
}

/* Calculate. Return false if the operation is invalid. */
static inline bool filter_calculate(uint32_t *a, uint16_t code, uint32_t operand)
{
    if (code == (BPF_ALU | BPF_NEG)) {
        *a = 0 - *a;
        return true;
    }
    switch (code & ~BPF_X) {
    case BPF_ALU | BPF_ADD:
        *a += operand;
        return true;
    case BPF_ALU | BPF_SUB:
        *a -= operand;
        return true;
    case BPF_ALU | BPF_MUL:
        *a *= operand;
        return true;
    case BPF_ALU | BPF_DIV:
        if (operand != 0)
            *a /= operand;
        return operand != 0;
    case BPF_ALU | BPF_AND:
        *a &= operand;
        return true;
    case BPF_ALU | BPF_OR:
        *a |= operand;
        return true;
    case BPF_ALU | BPF_XOR:
        *a ^= operand;
        return true;
    case BPF_ALU | BPF_LSH:
        *a <<= operand & FILTER_SHIFT_MASK;
        return true;
    case BPF_ALU | BPF_RSH:
        *a >>= operand & FILTER_SHIFT_MASK;
        return true;
    default:
        return false;
    }
}

/* Set *skipped to the number of instructions that a jump skips. Return false if it is invalid. */
static inline bool filter_jump(const struct sock_filter *at, uint32_t a, uint32_t operand,
                               size_t *skipped)
{
    bool holds;
    switch (at->code & ~BPF_X) {
    case BPF_JMP | BPF_JEQ:
        holds = a == operand;
        break;
    case BPF_JMP | BPF_JGT:
        holds = a > operand;
        break;
    case BPF_JMP | BPF_JGE:
        holds = a >= operand;
        break;
    case BPF_JMP | BPF_JSET:
        holds = (a & operand) != 0;
        break;
    default:
        *skipped = at->k;
        return at->code == (BPF_JMP | BPF_JA);
    }
    *skipped = holds ? at->jt : at->jf;
    return true;
}

/* Run a filter. Jumps only lead forward, so every program ends. */
static inline uint32_t seccomp_filter_run(const struct sock_filter *program, size_t length,
                                          const struct seccomp_data *data)
{
    struct filter_machine machine = {0};
    for (size_t pc = 0; pc < length; pc++) {
        const struct sock_filter *at = &program[pc];
        uint32_t operand = BPF_SRC(at->code) == BPF_X ? machine.x : at->k;
        size_t skipped = 0;
        bool is_valid = true;
        switch (BPF_CLASS(at->code)) {
        case BPF_ALU:
            is_valid = filter_calculate(&machine.a, at->code, operand);
            break;
        case BPF_JMP:
            is_valid = filter_jump(at, machine.a, operand, &skipped);
            break;
        case BPF_MISC:
            if (at->code == (BPF_MISC | BPF_TAX))
                machine.x = machine.a;
            else if (at->code == (BPF_MISC | BPF_TXA))
                machine.a = machine.x;
            else
                is_valid = false;
            break;
        case BPF_RET:
            if (at->code == (BPF_RET | BPF_K))
                return at->k;
            if (at->code == (BPF_RET | BPF_A))
                return machine.a;
            return SECCOMP_RET_KILL_PROCESS;
        default:
            is_valid = filter_move(&machine, at->code, at->k, data);
        }
        if (!is_valid)
            return SECCOMP_RET_KILL_PROCESS;
        pc += skipped;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

/* What a filter means for the client. */
struct client_filter_verdict {
    bool forbids;           /* it would kill for, or stop, a call that is needed, or make it fail */
    bool tells_places;      /* it looks where calls come from, which is not known in advance */
    bool forbids_copying;   /* the calls CALL_COPIES */
    bool forbids_unlocking; /* the calls CALL_UNLOCKS */
    enum client_call call;  /* that it forbids, other than for copying */
};

static inline bool filter_is_bad(uint32_t verdict, enum call_need need)
{
    uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;
    if (action == SECCOMP_RET_ERRNO)
        return need != CALL_BEARABLE;
    return action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG;
}

static inline bool filter_tells_places(const struct sock_filter *program, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (program[i].code == (BPF_LD | BPF_W | BPF_ABS) &&
            program[i].k / 8 == offsetof(struct seccomp_data, instruction_pointer) / 8)
            return true;
    }
    return false;
}

static inline struct seccomp_data filter_data_of(enum client_call call)
{
    struct seccomp_data data = {.nr = client_calls[call].number, .arch = CLIENT_FILTER_MACHINE};
    for (unsigned i = 0; i < 6; i++) {
        int64_t argument = client_calls[call].arguments[i];
        if (CALL_IS_CHOSEN(argument))
            argument = argument == CALL_LENGTH ? 4096 : 0;
        data.args[i] = (uint64_t)argument;
    }
    return data;
}

/* Ask about all calls of these makers (enum call_maker). Add to what other filters forbid. */
static inline void client_filter_check(const struct sock_filter *program, size_t length,
                                       unsigned makers, struct client_filter_verdict *verdict)
{
    verdict->tells_places |= filter_tells_places(program, length);
    for (unsigned i = 0; i < CLIENT_CALL_COUNT && !verdict->forbids; i++) {
        if ((client_calls[i].makers & makers) == 0)
            continue;
        enum call_need need = client_calls[i].need;
        struct seccomp_data data = filter_data_of(i);
        if (!filter_is_bad(seccomp_filter_run(program, length, &data), need))
            continue;
        verdict->forbids_copying |= need == CALL_COPIES;
        verdict->forbids_unlocking |= need == CALL_UNLOCKS;
        verdict->forbids = need == CALL_BEARABLE || need == CALL_SERIOUS;
        if (need != CALL_COPIES)
            verdict->call = i;
    }
}

#endif
