/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's tables map ranges of instructions to lines, as differences from one range to the next.
 *
 *   3.9    pairs of bytes (length, difference): `length` bytes further, the line is `difference`
 *          higher
 *   3.10   pairs of bytes (length, difference): a range of `length` bytes, whose line is
 *          `difference` higher; -128: it has no line
 *   3.11   entries of a first byte with bit 7, and more without it. The first has a form and the
 *          number of instructions; the form says how the line's difference is encoded, and is
 *          followed by columns
 */
#include "profile/interp/code_lines.h"

#define INSTRUCTION_BYTES 2u

/* Forms of 3.11's entries. Lower ones have a column only. */
enum form {
    FORM_ONE_LINE = 10, /* to 12: the line's difference is the form less 10 */
    FORM_NO_COLUMNS = 13,
    FORM_LONG = 14,
    FORM_NO_LINE = 15,
};

static uint32_t line_of(int64_t line)
{
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t find_39(const struct code_lines *table, uint64_t offset)
{
    uint64_t address = 0;
    int64_t line = table->first_line;
    for (size_t i = 0; i + 2 <= table->length; i += 2) {
        address += table->bytes[i];
        if (address > offset)
            return line_of(line);
        line += (int8_t)table->bytes[i + 1];
    }
    return table->is_cut ? 0 : line_of(line);
}

static uint32_t find_310(const struct code_lines *table, uint64_t offset)
{
    uint64_t end = 0;
    int64_t line = table->first_line;
    for (size_t i = 0; i + 2 <= table->length; i += 2) {
        int8_t step = (int8_t)table->bytes[i + 1];
        end += table->bytes[i];
        line += step != INT8_MIN ? step : 0;
        if (end > offset)
            return step != INT8_MIN ? line_of(line) : 0;
    }
    return 0;
}

/* Read a signed number of 6 bits a byte, the lowest first, at *at. Bit 6: more follow. */
static int64_t read_signed(const struct code_lines *table, size_t at)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at < table->length && shift < 36; shift += 6) {
        uint8_t byte = table->bytes[at++];
        value |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static uint32_t find_311(const struct code_lines *table, uint64_t instruction)
{
    uint64_t end = 0;
    int64_t line = table->first_line;
    for (size_t i = 0; i < table->length;) {
        unsigned form = table->bytes[i] >> 3 & 15;
        size_t next = i + 1;
        while (next < table->length && !(table->bytes[next] & 128))
            next++;
        if (table->is_cut && next == table->length)
            return 0; /* this entry may be longer */
        end += (table->bytes[i] & 7u) + 1;
        if (form == FORM_LONG || form == FORM_NO_COLUMNS)
            line += read_signed(table, i + 1);
        else if (form >= FORM_ONE_LINE && form < FORM_NO_COLUMNS)
            line += form - FORM_ONE_LINE;
        if (end > instruction)
            return form == FORM_NO_LINE ? 0 : line_of(line);
        i = next;
    }
    return 0;
}

uint32_t code_lines_find(const struct code_lines *table, uint32_t place)
{
    if (place == RECORD_CODE_PLACE_UNKNOWN)
        return 0;
    if (table->kind == RECORD_LINES_NONE)
        return place;
    if (place == 0)
        return line_of(table->first_line);
    uint64_t instruction = place - 1;
    switch (table->kind) {
    case RECORD_LINES_PYTHON_39:
        return find_39(table, instruction * INSTRUCTION_BYTES);
    case RECORD_LINES_PYTHON_310:
        return find_310(table, instruction * INSTRUCTION_BYTES);
    case RECORD_LINES_PYTHON_311:
        return find_311(table, instruction);
    default:
        return 0;
    }
}
