/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the few instructions of aarch64 that depend on their own address, and those of which
 * trampolines are made. Every other instruction is only noted. It shares no code with the decoder
 * that it checks.
 */
#ifndef HEAPPROFD_TESTS_AARCH64_MACHINE_H
#define HEAPPROFD_TESTS_AARCH64_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MACHINE_EVENTS_MAX 16u

struct machine {
    uint64_t registers[32]; /* [31]: zero, as far as these instructions know it */
    unsigned flags;         /* n, z, c, v: bits 3 to 0 */
    uint64_t pc;
    /* Instructions that were only noted, and loads of vector registers with their address. */
    struct {
        uint32_t word;
        uint64_t address;
    } events[MACHINE_EVENTS_MAX];
    unsigned event_count;
    bool has_left; /* by an instruction that was only noted: br and its kin */
};

static inline uint64_t machine_field(uint32_t word, unsigned low, unsigned bits)
{
    return word >> low & ((UINT64_C(1) << bits) - 1);
}

static inline uint64_t machine_signed(uint32_t word, unsigned low, unsigned bits)
{
    uint64_t value = machine_field(word, low, bits);
    return value >> (bits - 1) != 0 ? value - (UINT64_C(1) << bits) : value;
}

static inline void machine_note(struct machine *machine, uint32_t word, uint64_t address)
{
    if (machine->event_count == MACHINE_EVENTS_MAX)
        return;
    machine->events[machine->event_count].word = word;
    machine->events[machine->event_count++].address = address;
}

static inline void machine_set(struct machine *machine, unsigned number, uint64_t value)
{
    if (number != 31)
        machine->registers[number] = value;
}

static inline bool machine_condition(unsigned flags, unsigned condition)
{
    bool n = flags >> 3 & 1, z = flags >> 2 & 1, c = flags >> 1 & 1, v = flags & 1;
    const bool holds[] = {z, c, n, v, c && !z, n == v, n == v && !z, true};
    return condition >= 14 || holds[condition >> 1] != (condition & 1);
}

/* Memory contains what its address determines. `operation`: 0: 32 bits, 1: 64, 2: 32 with sign. */
static inline uint64_t machine_load(uint64_t address, unsigned operation)
{
    uint64_t value = (address + 1) * UINT64_C(0x9E3779B97F4A7C15);
    if (operation == 1)
        return value;
    return operation == 0 ? (uint32_t)value : (uint64_t)(int64_t)(int32_t)value;
}

static inline bool machine_branch(struct machine *machine, uint32_t word)
{
    uint64_t at = machine->pc, next = at + 4, to = next;
    if (word >> 26 == 5) {
        to = at + machine_signed(word, 0, 26) * 4;
    } else if (word >> 24 == 0x54) {
        if (machine_condition(machine->flags, word & 15))
            to = at + machine_signed(word, 5, 19) * 4;
    } else if ((word >> 25 & 0x3f) == 0x1a) {
        uint64_t value = machine->registers[word & 31];
        if (word >> 31 == 0)
            value = (uint32_t)value;
        if ((value == 0) == ((word >> 24 & 1) == 0))
            to = at + machine_signed(word, 5, 19) * 4;
    } else if ((word >> 25 & 0x3f) == 0x1b) {
        unsigned bit = (unsigned)(word >> 31 << 5 | machine_field(word, 19, 5));
        bool is_set = machine->registers[word & 31] >> bit & 1;
        if (is_set == (word >> 24 & 1))
            to = at + machine_signed(word, 5, 14) * 4;
    } else if ((word & 0xfffffc1f) == 0xd65f0000) {
        to = machine->registers[word >> 5 & 31];
    } else {
        return false;
    }
    machine->pc = to;
    return true;
}

/* Run one instruction. */
static inline void machine_step(struct machine *machine, uint32_t word)
{
    static const uint32_t vector_loads[] = {0x1c000000, 0x5c000000, 0x9c000000};
    uint64_t at = machine->pc;
    unsigned number = word & 31, other = word >> 5 & 31;
    if (machine_branch(machine, word))
        return;
    machine->pc = at + 4;
    if ((word & 0x1f000000) == 0x10000000) {
        uint64_t bytes = machine_signed(word, 5, 19) * 4 + machine_field(word, 29, 2);
        machine_set(machine, number, word >> 31 ? (at >> 12 << 12) + bytes * 4096 : at + bytes);
    } else if ((word & 0xff000000) == 0xd8000000 || word == 0xd503201f) {
        return; /* prfm of a literal, nop */
    } else if ((word & 0x3f000000) == 0x18000000) {
        machine_set(machine, number,
                    machine_load(at + machine_signed(word, 5, 19) * 4, word >> 30));
    } else if ((word & 0x3f000000) == 0x1c000000) {
        machine_note(machine, vector_loads[word >> 30] | number,
                     at + machine_signed(word, 5, 19) * 4);
    } else if ((word & 0xfffffc00) == 0xb9400000 && other == number) {
        machine_set(machine, number, machine_load(machine->registers[other], 0));
    } else if ((word & 0xfffffc00) == 0xf9400000 && other == number) {
        machine_set(machine, number, machine_load(machine->registers[other], 1));
    } else if ((word & 0xfffffc00) == 0xb9800000 && other == number) {
        machine_set(machine, number, machine_load(machine->registers[other], 2));
    } else if ((word & 0xfffffc00) == 0xbd400000 && (other & 30) == 16) {
        machine_note(machine, vector_loads[0] | number, machine->registers[other]);
    } else if ((word & 0xfffffc00) == 0xfd400000 && (other & 30) == 16) {
        machine_note(machine, vector_loads[1] | number, machine->registers[other]);
    } else if ((word & 0xfffffc00) == 0x3dc00000 && (other & 30) == 16) {
        machine_note(machine, vector_loads[2] | number, machine->registers[other]);
    } else if ((word & 0xff800000) == 0xd2800000) {
        machine_set(machine, number, machine_field(word, 5, 16) << 16 * machine_field(word, 21, 2));
    } else if ((word & 0xff800000) == 0xf2800000) {
        unsigned low = 16 * (unsigned)machine_field(word, 21, 2);
        uint64_t kept = machine->registers[number] & ~(UINT64_C(0xffff) << low);
        machine_set(machine, number, kept | machine_field(word, 5, 16) << low);
    } else {
        machine_note(machine, word, 0);
        machine->has_left = (word & 0xfe000000) == 0xd6000000;
    }
}

/* Run code at an address until the pc leaves it, or is at `stop` again. */
static inline void machine_run(struct machine *machine, const uint8_t *code, size_t bytes,
                               uint64_t address, uint64_t stop)
{
    machine->pc = address;
    for (unsigned steps = 0; steps < 64; steps++) {
        uint32_t word;
        memcpy(&word, code + (machine->pc - address), sizeof(word));
        machine_step(machine, word);
        if (machine->has_left || machine->pc == stop || machine->pc < address ||
            machine->pc - address >= bytes)
            return;
    }
}

/* Return whether both have done the same, except with the registers for far jumps. */
static inline bool machine_is_same(const struct machine *a, const struct machine *b)
{
    for (unsigned i = 0; i < 31; i++) {
        if (i != 16 && i != 17 && a->registers[i] != b->registers[i])
            return false;
    }
    return a->event_count == b->event_count && a->has_left == b->has_left &&
           memcmp(a->events, b->events, a->event_count * sizeof(a->events[0])) == 0 &&
           (a->has_left || a->pc == b->pc);
}

#endif
