/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line number programs of DWARF 2 to 5: the file and line of an address. A program is run once for
 * all addresses of its unit, and only the answers are kept, so memory does not grow with debug
 * information.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_LINE_TABLE_H
#define HEAPPROFD_PROFILE_SYMBOLS_LINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/symbols/dwarf_bytes.h"

/* The sections of a program and its file names. Absent sections are empty. The byte order is this
 * machine's. */
struct line_sections {
    struct dwarf_bytes line, line_str, str;
};

/* Instead of a file, if there is no row. */
#define LINE_NO_FILE UINT32_MAX

struct line_row {
    uint32_t file, line; /* line 0: code without a line */
};

struct line_table {
    const struct line_sections *sections;
    struct dwarf_bytes program;
    unsigned version, minimum_length, line_range, opcode_base;
    int line_base;
    unsigned address_bytes;
    bool wide; /* 64-bit DWARF */
    uint8_t operands[256];
    const char **directories; /* by index */
    size_t directory_count, directory_capacity;
    struct line_file {
        const char *name;
        uint64_t directory;
    } * files;
    size_t file_count, file_capacity;
};

/* Read the header at this offset of .debug_line into *table, whose arrays are reused. Return 0,
 * -EBADMSG (damaged, or an unknown version), or -ENOMEM. */
int line_table_read(struct line_table *table, const struct line_sections *sections, uint64_t offset,
                    unsigned address_bytes);
void line_table_clear(struct line_table *table);

/* Run the program. Set rows[i] for addresses[i] (sorted); rows of addresses that it does not cover
 * stay unchanged. */
void line_table_find(const struct line_table *table, const uint64_t *addresses, size_t count,
                     struct line_row *rows);

/* Return the malloc'd path of a file by its index in rows and in DW_AT_call_file, or NULL: none, or
 * no memory. */
char *line_table_path(const struct line_table *table, uint32_t file,
                      const char *compilation_directory);

#endif
