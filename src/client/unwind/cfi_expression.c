/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluate those DWARF expressions that call frame information may contain, on a
 * stack of 64-bit words. The block and the stack bound each operation, and a
 * number of operations bounds loops.
 */
#include "client/unwind/cfi.h"
#include "client/unwind/cfi_reader.h"

#define STACK_WORDS 24u
#define OPERATIONS_MAX 1000u

struct evaluation {
    struct cfi_reader reader;
    const uint8_t *start;
    const struct cfi_machine *machine;
    uint64_t stack[STACK_WORDS];
    unsigned depth;
    enum cfi_result error; /* CFI_FOUND: none so far */
};

static void push(struct evaluation *e, uint64_t value)
{
    if (e->depth == STACK_WORDS)
        e->error = CFI_BAD;
    else
        e->stack[e->depth++] = value;
}

static uint64_t pop(struct evaluation *e)
{
    if (e->depth == 0) {
        e->error = CFI_BAD;
        return 0;
    }
    return e->stack[--e->depth];
}

static uint64_t pick(struct evaluation *e, unsigned from_top)
{
    if (from_top >= e->depth) {
        e->error = CFI_BAD;
        return 0;
    }
    return e->stack[e->depth - 1 - from_top];
}

static void push_register(struct evaluation *e, uint64_t column, int64_t offset)
{
    if (column >= ARCH_REGISTERS || !(e->machine->known >> column & 1))
        e->error = CFI_UNKNOWN;
    else
        push(e, e->machine->registers[column] + (uint64_t)offset);
}

static void dereference(struct evaluation *e, unsigned bytes)
{
    uint64_t value, address = pop(e);
    if (bytes == 0 || bytes > 8) {
        e->error = CFI_BAD;
        return;
    }
    if (e->error != CFI_FOUND)
        return;
    if (!e->machine->read(e->machine->context, address, &value)) {
        e->error = CFI_UNREADABLE;
        return;
    }
    push(e, bytes == 8 ? value : value & ((UINT64_C(1) << 8 * bytes) - 1));
}

static void jump(struct evaluation *e, int16_t distance)
{
    ptrdiff_t at = e->reader.at - e->start;
    if (at + distance < 0 || at + distance > e->reader.end - e->start)
        e->error = CFI_BAD;
    else
        e->reader.at += distance;
}

static bool cfi_expression_compare(uint8_t operation, int64_t a, int64_t b)
{
    switch (operation) {
    case 0x29: /* eq */
        return a == b;
    case 0x2a: /* ge */
        return a >= b;
    case 0x2b: /* gt */
        return a > b;
    case 0x2c: /* le */
        return a <= b;
    case 0x2d: /* lt */
        return a < b;
    default: /* 0x2e, ne */
        return a != b;
    }
}

/* Replace the two topmost words with the result of an operation; b is the top. */
static void binary(struct evaluation *e, uint8_t operation)
{
    uint64_t b = pop(e), a = pop(e);
    int64_t sb = (int64_t)b, sa = (int64_t)a;
    unsigned shift = b < 64 ? (unsigned)b : 63;
    switch (operation) {
    case 0x1a: /* and */
        push(e, a & b);
        break;
    case 0x1b: /* div */
        if (sb == 0)
            e->error = CFI_BAD;
        else
            push(e, sb == -1 ? 0 - a : (uint64_t)(sa / sb));
        break;
    case 0x1c: /* minus */
        push(e, a - b);
        break;
    case 0x1d: /* mod */
        if (b == 0)
            e->error = CFI_BAD;
        else
            push(e, a % b);
        break;
    case 0x1e: /* mul */
        push(e, a * b);
        break;
    case 0x21: /* or */
        push(e, a | b);
        break;
    case 0x22: /* plus */
        push(e, a + b);
        break;
    case 0x24: /* shl */
        push(e, b < 64 ? a << shift : 0);
        break;
    case 0x25: /* shr */
        push(e, b < 64 ? a >> shift : 0);
        break;
    case 0x26: /* shra */
        push(e, (uint64_t)(sa >> shift));
        break;
    case 0x27: /* xor */
        push(e, a ^ b);
        break;
    case 0x29 ... 0x2e: /* comparisons */
        push(e, cfi_expression_compare(operation, sa, sb));
        break;
    default:
        e->error = CFI_BAD;
    }
}

static void rotate(struct evaluation *e)
{
    uint64_t a = pop(e), b = pop(e), c = pop(e);
    push(e, a);
    push(e, c);
    push(e, b);
}

static void swap(struct evaluation *e)
{
    uint64_t a = pop(e), b = pop(e);
    push(e, a);
    push(e, b);
}

/* Constants and registers. */
static bool operate_push(struct evaluation *e, uint8_t operation)
{
    struct cfi_reader *reader = &e->reader;
    switch (operation) {
    case 0x03: /* addr */
    case 0x0e: /* const8u */
    case 0x0f: /* const8s */
        push(e, cfi_read_u64(reader));
        return true;
    case 0x08: /* const1u */
        push(e, cfi_read_u8(reader));
        return true;
    case 0x09: /* const1s */
        push(e, (uint64_t)(int8_t)cfi_read_u8(reader));
        return true;
    case 0x0a: /* const2u */
        push(e, cfi_read_u16(reader));
        return true;
    case 0x0b: /* const2s */
        push(e, (uint64_t)(int16_t)cfi_read_u16(reader));
        return true;
    case 0x0c: /* const4u */
        push(e, cfi_read_u32(reader));
        return true;
    case 0x0d: /* const4s */
        push(e, (uint64_t)(int32_t)cfi_read_u32(reader));
        return true;
    case 0x10: /* constu */
        push(e, cfi_read_uleb(reader));
        return true;
    case 0x11: /* consts */
        push(e, (uint64_t)cfi_read_sleb(reader));
        return true;
    case 0x92: { /* bregx */
        uint64_t column = cfi_read_uleb(reader);
        push_register(e, column, cfi_read_sleb(reader));
        return true;
    }
    default:
        break;
    }
    if (operation >= 0x30 && operation <= 0x4f) { /* lit0..31 */
        push(e, operation - 0x30u);
        return true;
    }
    if (operation >= 0x70 && operation <= 0x8f) { /* breg0..31 */
        push_register(e, operation - 0x70u, cfi_read_sleb(reader));
        return true;
    }
    return false;
}

static void operate(struct evaluation *e, uint8_t operation)
{
    struct cfi_reader *reader = &e->reader;
    if (operate_push(e, operation))
        return;
    switch (operation) {
    case 0x06: /* deref */
        dereference(e, 8);
        break;
    case 0x94: /* deref_size */
        dereference(e, cfi_read_u8(reader));
        break;
    case 0x12: /* dup */
        push(e, pick(e, 0));
        break;
    case 0x13: /* drop */
        pop(e);
        break;
    case 0x14: /* over */
        push(e, pick(e, 1));
        break;
    case 0x15: /* pick */
        push(e, pick(e, cfi_read_u8(reader)));
        break;
    case 0x16:
        swap(e);
        break;
    case 0x17:
        rotate(e);
        break;
    case 0x19: { /* abs */
        uint64_t value = pop(e);
        push(e, (int64_t)value < 0 ? 0 - value : value);
        break;
    }
    case 0x1f: /* neg */
        push(e, 0 - pop(e));
        break;
    case 0x20: /* not */
        push(e, ~pop(e));
        break;
    case 0x23: /* plus_uconst */
        push(e, pop(e) + cfi_read_uleb(reader));
        break;
    case 0x28: { /* bra */
        int16_t distance = (int16_t)cfi_read_u16(reader);
        if (pop(e) != 0)
            jump(e, distance);
        break;
    }
    case 0x2f: /* skip */
        jump(e, (int16_t)cfi_read_u16(reader));
        break;
    case 0x96: /* nop */
        break;
    default:
        binary(e, operation);
    }
}

enum cfi_result cfi_expression(const uint8_t *block, const struct cfi_machine *machine,
                               const uint64_t *initial, uint64_t *value)
{
    struct evaluation e = {.machine = machine, .error = CFI_FOUND};
    e.reader = (struct cfi_reader){.at = block, .end = block + 10};
    uint64_t bytes = cfi_read_uleb(&e.reader);
    e.start = e.reader.at;
    e.reader.end = e.reader.at + bytes;
    if (initial != NULL)
        push(&e, *initial);
    for (unsigned i = 0; e.reader.at < e.reader.end; i++) {
        if (i == OPERATIONS_MAX)
            return CFI_BAD;
        operate(&e, cfi_read_u8(&e.reader));
        if (e.reader.failed)
            return CFI_BAD;
        if (e.error != CFI_FOUND)
            return e.error;
    }
    *value = pop(&e);
    return e.error;
}
