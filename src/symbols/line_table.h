/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line number programs of DWARF 2 to 5: which file and line an address comes
 * from. A program is run once for all addresses of its unit and nothing of it
 * is kept but the answers, so memory does not grow with debug information.
 */
#ifndef HEAPPROFD_SYMBOLS_LINE_TABLE_H
#define HEAPPROFD_SYMBOLS_LINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_bytes {
    const uint8_t *at, *end;
};

/* The sections that a program and its file names lie in; absent ones are empty.
 * They are of this machine's byte order. */
struct line_sections {
    struct dwarf_bytes line, line_str, str;
};

/* In place of a file where there is no row at all. */
#define LINE_NO_FILE UINT32_MAX

struct line_row {
    uint32_t file, line; /* line 0: code that no line stands for */
};

struct line_table {
    const struct line_sections *sections;
    struct dwarf_bytes program;
    unsigned version, minimum_length, maximum_operations, line_range, opcode_base;
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

/* Reads the header at this offset of .debug_line into *table, whose arrays are used again from one
 * call to the next. 0, -EBADMSG: damaged or of a version unknown, -ENOMEM. */
int line_table_read(struct line_table *table, const struct line_sections *sections, uint64_t offset,
                    unsigned address_bytes);
void line_table_clear(struct line_table *table);

/* Runs the program: rows[i] is that of addresses[i] (sorted), unchanged where there is none. */
void line_table_find(const struct line_table *table, const uint64_t *addresses, size_t count,
                     struct line_row *rows);

/* The malloc'd path of a file by its index in rows and in DW_AT_call_file; NULL: none, or no
 * memory. */
char *line_table_path(const struct line_table *table, uint32_t file,
                      const char *compilation_directory);

#endif
