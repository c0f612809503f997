/* SPDX-License-Identifier: Apache-2.0 */
/* Apply a frame rule, and evaluate DWARF expressions. */
#include "recorder/walk/frame_step.h"

#include <dwarf.h>
#include <stddef.h>
#include <string.h>

#define VALUES_MAX 64u

/* The state of an evaluation. */
struct evaluation {
    struct frame_machine *machine;
    const uint64_t *cfa; /* NULL: not known yet */
    uint64_t values[VALUES_MAX];
    unsigned count;
    enum frame_result failed;
};

bool frame_read(struct frame_machine *machine, uint64_t address, uint64_t *value)
{
    uint64_t bytes = machine->stack_high - machine->stack_low;
    if (address < machine->stack_low || bytes < 8 || address - machine->stack_low > bytes - 8) {
        machine->read_beyond |= address >= machine->stack_high;
        return false;
    }
    memcpy(value, (const char *)machine->stack + (address - machine->stack_low), sizeof(*value));
    return true;
}

static bool frame_step_fail(struct evaluation *evaluation, enum frame_result why)
{
    evaluation->failed = why;
    return false;
}

static bool push(struct evaluation *evaluation, uint64_t value)
{
    if (evaluation->count == VALUES_MAX)
        return frame_step_fail(evaluation, FRAME_BAD);
    evaluation->values[evaluation->count++] = value;
    return true;
}

static bool push_register(struct evaluation *evaluation, uint64_t number, uint64_t offset)
{
    const struct frame_machine *machine = evaluation->machine;
    if (number >= FRAME_REGISTERS || !(machine->known >> number & 1))
        return frame_step_fail(evaluation, FRAME_UNKNOWN);
    return push(evaluation, machine->registers[number] + offset);
}

static bool push_memory(struct evaluation *evaluation, unsigned bytes)
{
    uint64_t value;
    if (bytes == 0 || bytes > 8)
        return frame_step_fail(evaluation, FRAME_BAD);
    if (!frame_read(evaluation->machine, evaluation->values[--evaluation->count], &value))
        return frame_step_fail(evaluation, FRAME_UNREADABLE);
    return push(evaluation, bytes < 8 ? value & ((UINT64_C(1) << bytes * 8) - 1) : value);
}

static bool apply_unary(struct evaluation *evaluation, const struct frame_operation *op)
{
    uint64_t *top = &evaluation->values[evaluation->count - 1];
    switch (op->atom) {
    case DW_OP_deref:
        return push_memory(evaluation, 8);
    case DW_OP_deref_size:
        return push_memory(evaluation, op->number <= 8 ? (unsigned)op->number : 0);
    case DW_OP_abs:
        *top = (int64_t)*top < 0 ? -*top : *top;
        return true;
    case DW_OP_neg:
        *top = -*top;
        return true;
    case DW_OP_not:
        *top = ~*top;
        return true;
    case DW_OP_plus_uconst:
        *top += op->number;
        return true;
    case DW_OP_dup:
        return push(evaluation, *top);
    case DW_OP_drop:
        evaluation->count--;
        return true;
    default:
        return frame_step_fail(evaluation, FRAME_BAD);
    }
}

static bool apply_binary(struct evaluation *evaluation, uint64_t atom)
{
    uint64_t b = evaluation->values[--evaluation->count];
    uint64_t *a = &evaluation->values[evaluation->count - 1];
    switch (atom) {
    case DW_OP_and:
        *a &= b;
        return true;
    case DW_OP_or:
        *a |= b;
        return true;
    case DW_OP_xor:
        *a ^= b;
        return true;
    case DW_OP_plus:
        *a += b;
        return true;
    case DW_OP_minus:
        *a -= b;
        return true;
    case DW_OP_mul:
        *a *= b;
        return true;
    case DW_OP_shl:
        *a = b < 64 ? *a << b : 0;
        return true;
    case DW_OP_shr:
        *a = b < 64 ? *a >> b : 0;
        return true;
    case DW_OP_shra:
        *a = (uint64_t)((int64_t)*a >> (b < 64 ? b : 63));
        return true;
    case DW_OP_eq:
        *a = *a == b;
        return true;
    case DW_OP_ne:
        *a = *a != b;
        return true;
    case DW_OP_ge:
        *a = (int64_t)*a >= (int64_t)b;
        return true;
    case DW_OP_gt:
        *a = (int64_t)*a > (int64_t)b;
        return true;
    case DW_OP_le:
        *a = (int64_t)*a <= (int64_t)b;
        return true;
    case DW_OP_lt:
        *a = (int64_t)*a < (int64_t)b;
        return true;
    case DW_OP_swap: {
        uint64_t under = *a;
        *a = b;
        return push(evaluation, under);
    }
    case DW_OP_over: {
        uint64_t under = *a;
        return push(evaluation, b) && push(evaluation, under);
    }
    default:
        return frame_step_fail(evaluation, FRAME_BAD);
    }
}

/* Apply an operation that pops nothing from the stack. *taken: whether it is such an operation. */
static bool apply_push(struct evaluation *evaluation, const struct frame_operation *op, bool *taken)
{
    *taken = true;
    if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
        return push(evaluation, op->atom - DW_OP_lit0);
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
        return push_register(evaluation, op->atom - DW_OP_breg0, op->number);
    if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
        return push_register(evaluation, op->atom - DW_OP_reg0, 0);
    switch (op->atom) {
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return push(evaluation, op->number);
    case DW_OP_regx:
        return push_register(evaluation, op->number, 0);
    case DW_OP_bregx:
        return push_register(evaluation, op->number, op->number2);
    case DW_OP_call_frame_cfa:
        return evaluation->cfa != NULL ? push(evaluation, *evaluation->cfa)
                                       : frame_step_fail(evaluation, FRAME_BAD);
    case DW_OP_nop:
        return true;
    default:
        *taken = false;
        return false;
    }
}

static bool apply(struct evaluation *evaluation, const struct frame_operation *op)
{
    bool taken;
    bool done = apply_push(evaluation, op, &taken);
    if (taken)
        return done;
    switch (op->atom) {
    case DW_OP_deref:
    case DW_OP_deref_size:
    case DW_OP_abs:
    case DW_OP_neg:
    case DW_OP_not:
    case DW_OP_plus_uconst:
    case DW_OP_dup:
    case DW_OP_drop:
        return evaluation->count >= 1 ? apply_unary(evaluation, op)
                                      : frame_step_fail(evaluation, FRAME_BAD);
    default:
        return evaluation->count >= 2 ? apply_binary(evaluation, op->atom)
                                      : frame_step_fail(evaluation, FRAME_BAD);
    }
}

/* Evaluate the operations. *is_value: the result is the value itself, not its address. */
static enum frame_result evaluate(struct frame_machine *machine, const struct frame_operation *ops,
                                  size_t count, const uint64_t *cfa, uint64_t *value,
                                  bool *is_value)
{
    struct evaluation evaluation; /* not cleared: 512 bytes, and most expressions use two values */
    evaluation.machine = machine;
    evaluation.cfa = cfa;
    evaluation.count = 0;
    *is_value =
        count > 0 && (ops[count - 1].atom == DW_OP_stack_value ||
                      (count == 1 && (ops[0].atom == DW_OP_regx ||
                                      (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31))));
    for (size_t i = 0; i < count; i++) {
        if (i == count - 1 && ops[i].atom == DW_OP_stack_value)
            break;
        if (machine->steps_left-- == 0) {
            machine->steps_left = 0;
            return FRAME_BAD;
        }
        if (!apply(&evaluation, &ops[i]))
            return evaluation.failed;
    }
    if (evaluation.count == 0)
        return FRAME_BAD;
    *value = evaluation.values[evaluation.count - 1];
    return FRAME_FOUND;
}

/* Compute the caller's register. FRAME_UNKNOWN: it is lost. */
static enum frame_result find_register(const struct frame_part *part,
                                       const struct frame_operation *operations,
                                       struct frame_machine *machine, unsigned number, uint64_t cfa,
                                       uint64_t *value)
{
    uint64_t result;
    bool is_value;
    switch (part->kind) {
    case FRAME_PART_LOST:
        return FRAME_UNKNOWN;
    case FRAME_PART_SAME:
        *value = machine->registers[number];
        return machine->known >> number & 1 ? FRAME_FOUND : FRAME_UNKNOWN;
    case FRAME_PART_OPERATIONS:
        break;
    default:
        return FRAME_BAD;
    }
    enum frame_result found = evaluate(machine, operations, part->count, &cfa, &result, &is_value);
    if (found != FRAME_FOUND)
        return found;
    if (is_value) {
        *value = result;
        return FRAME_FOUND;
    }
    return frame_read(machine, result, value) ? FRAME_FOUND : FRAME_UNREADABLE;
}

enum frame_result frame_step(const struct frame_rule *rule, struct frame_machine *machine,
                             uint64_t *address, bool *signal)
{
    const struct frame_operation *operations[FRAME_REGISTERS];
    const struct frame_operation *next = rule->operations + rule->cfa.count;
    unsigned back = rule->return_register;
    uint64_t cfa;
    bool is_value;
    for (unsigned i = 0; i < FRAME_REGISTERS; next += rule->registers[i++].count)
        operations[i] = next;
    *signal = rule->is_signal != 0;
    enum frame_result found =
        evaluate(machine, rule->operations, rule->cfa.count, NULL, &cfa, &is_value);
    if (found != FRAME_FOUND)
        return found;
    if (rule->registers[back].kind == FRAME_PART_LOST)
        return FRAME_OUTERMOST;
    found = find_register(&rule->registers[back], operations[back], machine, back, cfa, address);
    if (found != FRAME_FOUND)
        return found;

    struct frame_machine caller = *machine;
    caller.known = 0;
    for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
        if (find_register(&rule->registers[i], operations[i], machine, i, cfa,
                          &caller.registers[i]) == FRAME_FOUND)
            caller.known |= UINT64_C(1) << i;
    }
    if (!(caller.known >> FRAME_STACK_POINTER & 1)) {
        caller.registers[FRAME_STACK_POINTER] = cfa;
        caller.known |= UINT64_C(1) << FRAME_STACK_POINTER;
    }
    caller.steps_left = machine->steps_left;
    caller.read_beyond = machine->read_beyond;
    *machine = caller;
    return FRAME_FOUND;
}
