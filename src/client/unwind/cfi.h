/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interpreter of call frame information (.eh_frame). cfi_find_row() maps a pc to
 * a "row": the rules that find the frame's caller. cfi_step() applies a row to the
 * frame's registers and yields the caller's.
 *
 * The bytes are not trusted: the source's range bounds each read, and the bytes
 * that a loop consumes bound the loop. Nothing is allocated. Memory outside the
 * source is read only through the machine's read function.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_CFI_H
#define HEAPPROFD_CLIENT_UNWIND_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/unwind.h"

/* The CFI of one object. */
struct cfi_source {
    uintptr_t low, high;    /* addresses that may be read */
    uintptr_t eh_frame_hdr; /* address of .eh_frame_hdr */
    uintptr_t delta;        /* the byte at address a is read at a - delta; 0 in a live process */
};

/* Copies of a CIE and an FDE, for objects that may be unloaded meanwhile. Longer
 * ones are refused. */
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

/* How to find a register of the caller. */
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

/* Find the row of the code at pc. If `copy` is not NULL, CIE and FDE are copied there before use,
 * so that an object which is unloaded causes an error instead of a fault; the row may point into
 * it. */
enum cfi_result cfi_find_row(const struct cfi_source *source, uintptr_t pc, struct cfi_copy *copy,
                             struct cfi_row *row);

/* A frame's registers, to which a row is applied. */
struct cfi_machine {
    uint64_t registers[ARCH_REGISTERS];
    uint64_t known; /* bit n: registers[n] is known */
    /* Read the 8 bytes at `address`. Return false if they are not readable. */
    bool (*read)(void *context, uintptr_t address, uint64_t *value);
    void *context;
};

/*
 * Replace the machine's registers with the caller's. The stack pointer becomes the
 * CFA unless the row has another rule; the return column becomes the pc. Registers
 * that cannot be recovered become unknown. If the CFA or the return address cannot
 * be computed, return an error and leave the machine unchanged.
 */
enum cfi_result cfi_step(const struct cfi_row *row, struct cfi_machine *machine, uint64_t *cfa);

/* Evaluate a DWARF expression: a block (ULEB128 length, then operations) whose
 * bounds cfi_find_row() has checked. If `initial` is not NULL, it is pushed first. */
enum cfi_result cfi_expression(const uint8_t *block, const struct cfi_machine *machine,
                               const uint64_t *initial, uint64_t *value);

#endif
