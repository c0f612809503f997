/* SPDX-License-Identifier: Apache-2.0 */
/* Apply a row to a frame's registers: compute the CFA, then each register of the caller. */
#include "client/unwind/cfi.h"

#include <stddef.h>

/* Compute a register of the caller. */
static enum cfi_result step_register(cfi_cell cell, uint32_t column, uint64_t cfa,
                                     const struct cfi_machine *machine, uint64_t *value)
{
    int64_t operand = cfi_cell_value(cell);
    const uint8_t *block = (const uint8_t *)(intptr_t)operand;
    uint64_t address = cfa + (uint64_t)operand;
    uint64_t from = column;
    enum cfi_result evaluated;
    switch (cfi_cell_rule(cell)) {
    case CFI_RULE_UNDEFINED:
        return CFI_UNKNOWN;
    case CFI_RULE_VALUE_OFFSET:
        *value = address;
        return CFI_FOUND;
    case CFI_RULE_VALUE_EXPRESSION:
        return cfi_expression(block, machine, &cfa, value);
    case CFI_RULE_EXPRESSION:
        evaluated = cfi_expression(block, machine, &cfa, &address);
        if (evaluated != CFI_FOUND)
            return evaluated;
        return machine->read(machine->context, address, value) ? CFI_FOUND : CFI_UNREADABLE;
    case CFI_RULE_OFFSET:
        return machine->read(machine->context, address, value) ? CFI_FOUND : CFI_UNREADABLE;
    case CFI_RULE_REGISTER:
        from = (uint64_t)operand;
        break;
    case CFI_RULE_SAME:
        break;
    default:
        return CFI_BAD;
    }
    if (from >= ARCH_REGISTERS || !(machine->known >> from & 1))
        return CFI_UNKNOWN;
    *value = machine->registers[from];
    return CFI_FOUND;
}

static enum cfi_result step_cfa(const struct cfi_columns *columns,
                                const struct cfi_machine *machine, uint64_t *cfa)
{
    int64_t operand = cfi_cell_value(columns->cfa);
    switch (cfi_cell_rule(columns->cfa)) {
    case CFI_RULE_REGISTER:
        if (!(machine->known >> columns->cfa_register & 1))
            return CFI_UNKNOWN;
        *cfa = machine->registers[columns->cfa_register] + (uint64_t)operand;
        return CFI_FOUND;
    case CFI_RULE_VALUE_EXPRESSION:
        return cfi_expression((const uint8_t *)(intptr_t)operand, machine, NULL, cfa);
    default:
        return CFI_BAD;
    }
}

enum cfi_result cfi_step(const struct cfi_row *row, struct cfi_machine *machine, uint64_t *cfa)
{
    const struct cfi_columns *columns = &row->columns;
    if (cfi_cell_rule(columns->cells[row->return_column]) == CFI_RULE_UNDEFINED)
        return CFI_OUTERMOST;
    enum cfi_result result = step_cfa(columns, machine, cfa);
    if (result != CFI_FOUND)
        return result;

    uint64_t caller[ARCH_REGISTERS], known = 0;
    for (uint32_t i = 0; i < ARCH_REGISTERS; i++) {
        cfi_cell cell = columns->cells[i];
        if (i == ARCH_STACK_POINTER && cfi_cell_rule(cell) == CFI_RULE_SAME) {
            caller[i] = *cfa;
            result = CFI_FOUND;
        } else {
            result = step_register(cell, i, *cfa, machine, &caller[i]);
        }
        if (result == CFI_FOUND)
            known |= UINT64_C(1) << i;
        else if (i == row->return_column || i == ARCH_STACK_POINTER)
            return result;
    }
    for (uint32_t i = 0; i < ARCH_REGISTERS; i++) {
        if (known >> i & 1)
            machine->registers[i] = caller[i];
    }
    machine->registers[ARCH_RETURN_ADDRESS] = caller[row->return_column];
    machine->known = known | UINT64_C(1) << ARCH_RETURN_ADDRESS;
    return CFI_FOUND;
}
