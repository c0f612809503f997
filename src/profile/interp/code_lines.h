/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which line of its source an instruction of an interpreted function belongs to. The tables are the
 * interpreters' own (wire/record.h, enum record_line_table) and come from the profiled process.
 */
#ifndef HEAPPROFD_PROFILE_INTERP_CODE_LINES_H
#define HEAPPROFD_PROFILE_INTERP_CODE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

struct code_lines {
    enum record_line_table kind;
    const uint8_t *bytes;
    size_t length;
    uint32_t first_line; /* of the function */
    bool is_cut;         /* the bytes are only the beginning of the table */
};

/* Return the line of a place in the function. 0: the table does not have one. */
uint32_t code_lines_find(const struct code_lines *table, uint32_t place);

#endif
