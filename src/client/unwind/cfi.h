/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information (.eh_frame), interpreted: from a pc to the rules by
 * which its frame's caller is found ("row"), and from a row and the frame's
 * registers to the caller's registers.
 *
 * The bytes are not trusted: each read is bounded by the range that the source
 * names, each loop by the bytes that it consumes. No memory is allocated, none
 * is read outside the source but through the machine's read function.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_CFI_H
#define HEAPPROFD_CLIENT_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/arch/unwind.h"

/* Where the CFI of one object lies. */
struct cfi_source {
    uintptr_t low, high;    /* addresses that may be read */
    uintptr_t eh_frame_hdr; /* address of .eh_frame_hdr */
    uintptr_t delta;        /* the byte of address a is read at a - delta; 0 in a live process */
};

/* Copies of a CIE and an FDE, for objects that may go away under our eyes;
 * what is longer is refused. */
struct cfi_copy {
    uint8_t cie[128];
    uint8_t fde[512];
};

enum cfi_result {
    CFI_OUTERMOST = 1, /* the return address is marked as undefined */
    CFI_FOUND = 0,
    CFI_NONE = -1,       /* no FDE covers the pc */
    CFI_BAD = -2,        /* does not parse */
    CFI_UNKNOWN = -3,    /* needs a register that is not known */
    CFI_UNREADABLE = -4, /* needs memory that cannot be read */
};

/* How a register of the caller is found. */
enum cfi_rule {
    CFI_RULE_SAME = 0, /* not mentioned: as in the callee */
    CFI_RULE_UNDEFINED,
    CFI_RULE_OFFSET,       /* at CFA + value */
    CFI_RULE_VALUE_OFFSET, /* is CFA + value */
    CFI_RULE_REGISTER,     /* in register value */
    CFI_RULE_EXPRESSION,   /* at the address that the expression yields */
    CFI_RULE_VALUE_EXPRESSION,
};

/* Rule in the top 8 bits, signed value or address of an expression below. */
typedef uint64_t cfi_cell;

static inline cfi_cell cfi_cell_make(enum cfi_rule rule, int64_t value)
{
    return (uint64_t)rule << 56 | ((uint64_t)value & (~UINT64_C(0) >> 8));
}

static inline enum cfi_rule cfi_cell_rule(cfi_cell cell)
{
    return (enum cfi_rule)(cell >> 56);
}

static inline int64_t cfi_cell_value(cfi_cell cell)
{
    return (int64_t)(cell << 8) >> 8;
}

struct cfi_columns {
    cfi_cell cfa; /* CFI_RULE_REGISTER: cfa_register + value; else CFI_RULE_VALUE_EXPRESSION */
    uint32_t cfa_register;
    cfi_cell cells[ARCH_REGISTERS];
};

struct cfi_row {
    struct cfi_columns columns;
    uintptr_t start, end; /* code of the function, [start, end) */
    uint32_t return_column;
    bool signal_frame; /* the caller was interrupted, it did not call */
};

/* The row for the code at pc. copy: NULL, or where to copy CIE and FDE to, so that
 * an object that vanishes costs an error instead of a fault; row may point into it. */
enum cfi_result cfi_find_row(const struct cfi_source *source, uintptr_t pc, struct cfi_copy *copy,
                             struct cfi_row *row);

/* A frame's registers: what a row is applied to. */
struct cfi_machine {
    uint64_t registers[ARCH_REGISTERS];
    uint64_t known; /* bit n: registers[n] is known */
    /* Reads the 8 bytes at address; false: not readable. */
    bool (*read)(void *context, uintptr_t address, uint64_t *value);
    void *context;
};

/*
 * Replaces the machine's registers with the caller's; the stack pointer becomes
 * the CFA unless the row says otherwise, the return column the pc. Registers
 * that cannot be recovered become unknown; the machine is unchanged on failure
 * (the CFA or the return address cannot be had).
 */
enum cfi_result cfi_step(const struct cfi_row *row, struct cfi_machine *machine, uint64_t *cfa);

/* Evaluates a DWARF expression: a block (ULEB128 length, then operations) whose
 * bounds cfi_find_row has checked. initial: pushed first, or NULL. */
enum cfi_result cfi_expression(const uint8_t *block, const struct cfi_machine *machine,
                               const uint64_t *initial, uint64_t *value);

#endif
