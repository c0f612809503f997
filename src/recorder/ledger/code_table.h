/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of interpreted languages in one process, and the places in them where its stacks
 * are. Places with the same function name, file and line are one: the client's ids differ for each
 * copy of a function.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_CODE_TABLE_H
#define HEAPPROFD_RECORDER_LEDGER_CODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hash_index.h"
#include "util/id_map.h"
#include "wire/record.h"

/* Bounds against a malicious client. Further functions and places are unknown. */
#define CODE_FUNCTIONS_MAX (1u << 20)
#define CODE_BYTES_MAX (UINT64_C(256) << 20)
/* Limit of frames whose line is looked up, once each. Each may take a pass over a long table. */
#define CODE_FRAMES_MAX (4u << 20)

struct code_function {
    char *name, *file; /* terminated; "": unknown */
    uint8_t *table;
    uint32_t table_length, first_line;
    uint16_t lines; /* enum record_line_table */
    uint8_t language;
    bool table_is_cut;
};

struct code_place {
    uint32_t function, line; /* 0: unknown */
};

struct code_table {
    struct code_function *functions; /* the first: the unknown one of each language */
    size_t function_count, function_capacity;
    struct id_map function_numbers; /* by record_code_function() */
    uint64_t bytes;
    struct code_place *places;
    size_t place_count, place_capacity;
    struct hash_index place_index; /* by name, file and line */
    struct id_map place_numbers;   /* by frame */
};

int code_table_init(struct code_table *table);
void code_table_clear(struct code_table *table);

/* Return 0 or -ENOMEM. */
int code_table_add(struct code_table *table, const struct record_code *code);

/* Return whether there is a function of the language. */
bool code_table_has(const struct code_table *table, enum record_language language);

/* Return the number of a frame's place, or UINT32_MAX without memory. */
uint32_t code_table_place(struct code_table *table, uint64_t frame);

#endif
