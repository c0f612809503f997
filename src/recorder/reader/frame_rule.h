/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to unwind the frame of the code at one address: libdw's DWARF operations in flat memory, so
 * that another process can evaluate them.
 */
#ifndef HEAPPROFD_RECORDER_READER_FRAME_RULE_H
#define HEAPPROFD_RECORDER_READER_FRAME_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define FRAME_REGISTERS 17u
#define FRAME_POINTER 6u
#define FRAME_STACK_POINTER 7u
#define FRAME_CALL_BYTES 1u /* a return address minus this is inside the call instruction */
#define FRAME_ADDRESS_BITS 47
#elif defined(__aarch64__)
#define FRAME_REGISTERS 32u
#define FRAME_POINTER 29u
#define FRAME_STACK_POINTER 31u
#define FRAME_CALL_BYTES 4u
#define FRAME_ADDRESS_BITS 48
#endif

/* Limit per frame. A frame of ordinary code has two operations for each saved register. */
#define FRAME_OPERATIONS_MAX 1024u

struct frame_operation {
    uint64_t atom; /* DW_OP_... */
    uint64_t number, number2;
};

enum frame_part_kind {
    FRAME_PART_LOST, /* undefined */
    FRAME_PART_SAME,
    FRAME_PART_OPERATIONS,
    FRAME_PART_BAD, /* the file's data is damaged */
};

struct frame_part {
    uint32_t kind;  /* enum frame_part_kind */
    uint32_t count; /* number of operations; the operations of all parts follow one another */
};

struct frame_rule {
    uint32_t return_register; /* < FRAME_REGISTERS */
    uint32_t is_signal;
    struct frame_part cfa;
    struct frame_part registers[FRAME_REGISTERS];
    struct frame_operation operations[];
};

/* Return whether untrusted bytes are a rule: every count is within the bytes, and there are no more
 * bytes. The operations may have any value. */
static inline bool frame_rule_is_whole(const void *bytes, size_t length)
{
    const struct frame_rule *rule = bytes;
    if (length < sizeof(*rule) || rule->return_register >= FRAME_REGISTERS ||
        rule->cfa.kind != FRAME_PART_OPERATIONS || rule->cfa.count == 0)
        return false;
    uint64_t count = rule->cfa.count;
    for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
        bool has_operations = rule->registers[i].kind == FRAME_PART_OPERATIONS;
        if (rule->registers[i].kind > FRAME_PART_BAD ||
            (rule->registers[i].count != 0) != has_operations)
            return false;
        count += rule->registers[i].count;
    }
    return count <= FRAME_OPERATIONS_MAX &&
           length == sizeof(*rule) + count * sizeof(struct frame_operation);
}

#endif
