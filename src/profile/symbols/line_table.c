/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run line number programs. Every byte is checked against the end of its section. A damaged program
 * ends at the damage, and rows before it stay valid.
 *
 * Sequences that begin at address 0 are skipped: they belong to functions that the linker removed,
 * and their addresses belong to other code.
 *
 * Not supported: VLIW operations (their index counts as whole instructions). MD5 sums and embedded
 * sources of files are skipped.
 */
#include "profile/symbols/line_table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/sorted_search.h"

/* No compiler writes larger tables. */
#define ENTRIES_MAX (1u << 20)
#define FORMATS_MAX 32u

/* --- reading --- */

struct reader {
    struct dwarf_bytes rest;
    bool failed;
};

static size_t left(const struct reader *reader)
{
    return (size_t)(reader->rest.end - reader->rest.at);
}

static uint64_t read_fixed(struct reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    if (left(reader) < bytes || bytes > 8) {
        reader->failed = true;
        reader->rest.at = reader->rest.end;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)reader->rest.at[i] << 8 * i;
    reader->rest.at += bytes;
    return value;
}

static uint64_t read_unsigned(struct reader *reader)
{
    uint64_t value;
    if (dwarf_take_leb(&reader->rest.at, reader->rest.end, &value))
        return value;
    reader->failed = true;
    return 0;
}

static int64_t read_signed(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; reader->rest.at < reader->rest.end;) {
        uint8_t byte = *reader->rest.at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte < 0x80)
            return (int64_t)(shift < 64 && (byte & 0x40) != 0 ? value | ~UINT64_C(0) << shift
                                                              : value);
    }
    reader->failed = true;
    return 0;
}

static const char *read_string(struct reader *reader)
{
    const void *zero = left(reader) > 0 ? memchr(reader->rest.at, 0, left(reader)) : NULL;
    const char *string = (const char *)reader->rest.at;
    if (zero == NULL) {
        reader->failed = true;
        reader->rest.at = reader->rest.end;
        return "";
    }
    reader->rest.at = (const uint8_t *)zero + 1;
    return string;
}

static void line_table_skip(struct reader *reader, uint64_t bytes)
{
    if (bytes > left(reader)) {
        reader->failed = true;
        bytes = left(reader);
    }
    reader->rest.at += bytes;
}

static const char *string_at(struct dwarf_bytes section, uint64_t offset)
{
    size_t size = (size_t)(section.end - section.at);
    if (offset >= size || memchr(section.at + offset, 0, size - offset) == NULL)
        return "";
    return (const char *)section.at + offset;
}

/* --- the header --- */

static int add_directory(struct line_table *table, const char *directory)
{
    if (table->directory_count >= ENTRIES_MAX)
        return -EBADMSG;
    return ARRAY_ADD(&table->directories, &table->directory_count, &table->directory_capacity,
                     directory);
}

static int add_file(struct line_table *table, const char *name, uint64_t directory)
{
    if (table->file_count >= ENTRIES_MAX)
        return -EBADMSG;
    return ARRAY_ADD(&table->files, &table->file_count, &table->file_capacity,
                     ((struct line_file){name, directory}));
}

/* Read the lists of DWARF 2 to 4, in which directories and files count from 1. 0 is the unit's own.
 */
static int read_old_names(struct line_table *table, struct reader *reader)
{
    int result = add_directory(table, "");
    while (result == 0 && !reader->failed) {
        const char *directory = read_string(reader);
        if (*directory == '\0')
            break;
        result = add_directory(table, directory);
    }
    if (result == 0)
        result = add_file(table, NULL, 0);
    while (result == 0 && !reader->failed) {
        const char *name = read_string(reader);
        if (*name == '\0')
            break;
        uint64_t directory = read_unsigned(reader);
        read_unsigned(reader); /* time */
        read_unsigned(reader); /* size */
        result = add_file(table, name, directory);
    }
    return result;
}

struct entry_value {
    const char *string;
    uint64_t number;
};

static struct entry_value read_form(const struct line_table *table, struct reader *reader,
                                    uint64_t form)
{
    struct entry_value value = {.string = ""};
    unsigned offset_bytes = table->wide ? 8 : 4;
    switch (form) {
    case DW_FORM_string:
        value.string = read_string(reader);
        break;
    case DW_FORM_line_strp:
        value.string = string_at(table->sections->line_str, read_fixed(reader, offset_bytes));
        break;
    case DW_FORM_strp:
        value.string = string_at(table->sections->str, read_fixed(reader, offset_bytes));
        break;
    case DW_FORM_udata:
        value.number = read_unsigned(reader);
        break;
    case DW_FORM_data1:
        value.number = read_fixed(reader, 1);
        break;
    case DW_FORM_data2:
        value.number = read_fixed(reader, 2);
        break;
    case DW_FORM_data4:
        value.number = read_fixed(reader, 4);
        break;
    case DW_FORM_data8:
        value.number = read_fixed(reader, 8);
        break;
    case DW_FORM_data16:
        line_table_skip(reader, 16);
        break;
    case DW_FORM_block:
        line_table_skip(reader, read_unsigned(reader));
        break;
    default:
        reader->failed = true;
    }
    return value;
}

/* Read a list of directories or files of DWARF 5, which describes its own format. */
static int read_new_list(struct line_table *table, struct reader *reader, bool files)
{
    uint64_t contents[FORMATS_MAX], forms[FORMATS_MAX];
    uint64_t formats = read_fixed(reader, 1);
    if (formats > FORMATS_MAX)
        return -EBADMSG;
    for (uint64_t i = 0; i < formats; i++) {
        contents[i] = read_unsigned(reader);
        forms[i] = read_unsigned(reader);
    }
    uint64_t count = read_unsigned(reader);
    if (count > ENTRIES_MAX || (formats == 0 && count > 0))
        return -EBADMSG;
    int result = 0;
    for (uint64_t i = 0; i < count && result == 0; i++) {
        const char *name = "";
        uint64_t directory = 0;
        for (uint64_t j = 0; j < formats; j++) {
            struct entry_value value = read_form(table, reader, forms[j]);
            if (contents[j] == DW_LNCT_path)
                name = value.string;
            else if (contents[j] == DW_LNCT_directory_index)
                directory = value.number;
        }
        if (reader->failed)
            return -EBADMSG;
        result = files ? add_file(table, name, directory) : add_directory(table, name);
    }
    return result;
}

int line_table_read(struct line_table *table, const struct line_sections *sections, uint64_t offset,
                    unsigned address_bytes)
{
    struct reader reader = {.rest = sections->line};
    table->sections = sections;
    table->directory_count = table->file_count = 0;
    table->address_bytes = address_bytes;
    table->program = (struct dwarf_bytes){0};
    line_table_skip(&reader, offset);
    uint64_t length = read_fixed(&reader, 4);
    table->wide = length == UINT32_MAX;
    if (table->wide)
        length = read_fixed(&reader, 8);
    if (reader.failed || length > left(&reader))
        return -EBADMSG;
    reader.rest.end = reader.rest.at + length;
    table->version = (unsigned)read_fixed(&reader, 2);
    if (table->version < 2 || table->version > 5)
        return -EBADMSG;
    if (table->version == 5) {
        table->address_bytes = (unsigned)read_fixed(&reader, 1);
        read_fixed(&reader, 1); /* segment selectors */
    }
    uint64_t header = read_fixed(&reader, table->wide ? 8 : 4);
    if (reader.failed || header > left(&reader) ||
        (table->address_bytes != 4 && table->address_bytes != 8))
        return -EBADMSG;
    struct dwarf_bytes program = {reader.rest.at + header, reader.rest.end};
    reader.rest.end = program.at;
    table->minimum_length = (unsigned)read_fixed(&reader, 1);
    if (table->version >= 4)
        read_fixed(&reader, 1); /* maximum_operations_per_instruction */
    read_fixed(&reader, 1);     /* default_is_stmt */
    table->line_base = (int8_t)read_fixed(&reader, 1);
    table->line_range = (unsigned)read_fixed(&reader, 1);
    table->opcode_base = (unsigned)read_fixed(&reader, 1);
    memset(table->operands, 0, sizeof(table->operands));
    for (unsigned i = 1; i < table->opcode_base; i++)
        table->operands[i] = (uint8_t)read_fixed(&reader, 1);
    if (reader.failed || table->line_range == 0)
        return -EBADMSG;
    int result = 0;
    if (table->version < 5) {
        result = read_old_names(table, &reader);
    } else {
        result = read_new_list(table, &reader, false);
        if (result == 0)
            result = read_new_list(table, &reader, true);
    }
    if (result == 0)
        table->program = program;
    return result;
}

void line_table_clear(struct line_table *table)
{
    free(table->directories);
    free(table->files);
    *table = (struct line_table){0};
}

/* --- the program --- */

struct machine {
    uint64_t address;
    uint32_t file, line;
    /* The previous row. It is valid from row_address to the next row's address. */
    struct line_row row;
    uint64_t row_address;
    bool in_sequence, thrown_away;
    const uint64_t *addresses;
    struct line_row *rows;
    size_t count, next; /* next: the first address that is not below row_address */
};

static size_t first_not_below(const uint64_t *addresses, size_t count, uint64_t address)
{
    return SORTED_SEARCH(count, i, addresses[i] < address);
}

/* Append the machine's state as a row, which ends the previous row. */
static inline void put_row(struct machine *machine)
{
    if (machine->in_sequence && machine->address >= machine->row_address) {
        while (machine->next < machine->count &&
               machine->addresses[machine->next] < machine->address) {
            if (!machine->thrown_away)
                machine->rows[machine->next] = machine->row;
            machine->next++;
        }
    } else {
        machine->thrown_away = machine->in_sequence ? machine->thrown_away : machine->address == 0;
        machine->next = first_not_below(machine->addresses, machine->count, machine->address);
    }
    machine->in_sequence = true;
    machine->row_address = machine->address;
    machine->row = (struct line_row){machine->file, machine->line};
}

static void begin_sequence(struct machine *machine)
{
    machine->in_sequence = false;
    machine->address = 0;
    machine->file = machine->line = 1;
}

static void run_extended(struct machine *machine, struct reader *reader)
{
    uint64_t length = read_unsigned(reader);
    if (reader->failed || length == 0 || length > left(reader)) {
        reader->failed = true;
        return;
    }
    const uint8_t *end = reader->rest.at + length;
    uint64_t opcode = read_fixed(reader, 1);
    if (opcode == DW_LNE_end_sequence) {
        put_row(machine);
        begin_sequence(machine);
    } else if (opcode == DW_LNE_set_address && length - 1 <= 8) {
        machine->address = read_fixed(reader, (unsigned)length - 1);
    }
    reader->rest.at = end;
}

static void run_standard(const struct line_table *table, struct machine *machine,
                         struct reader *reader, unsigned opcode)
{
    switch (opcode) {
    case DW_LNS_copy:
        put_row(machine);
        break;
    case DW_LNS_advance_pc:
        machine->address += read_unsigned(reader) * table->minimum_length;
        break;
    case DW_LNS_advance_line:
        machine->line += (uint32_t)read_signed(reader);
        break;
    case DW_LNS_set_file:
        machine->file = (uint32_t)read_unsigned(reader);
        break;
    case DW_LNS_const_add_pc:
        machine->address +=
            (uint64_t)((255 - table->opcode_base) / table->line_range) * table->minimum_length;
        break;
    case DW_LNS_fixed_advance_pc:
        machine->address += read_fixed(reader, 2);
        break;
    default: /* without effect on file, line and address, or unknown */
        for (unsigned i = 0; i < table->operands[opcode] && !reader->failed; i++)
            read_unsigned(reader);
    }
}

void line_table_find(const struct line_table *table, const uint64_t *addresses, size_t count,
                     struct line_row *rows)
{
    struct reader reader = {.rest = table->program};
    struct machine machine = {.addresses = addresses, .rows = rows, .count = count};
    uint32_t address_steps[256];
    int line_steps[256];
    for (unsigned opcode = table->opcode_base; opcode < 256; opcode++) {
        unsigned adjusted = opcode - table->opcode_base;
        address_steps[opcode] = adjusted / table->line_range * table->minimum_length;
        line_steps[opcode] = table->line_base + (int)(adjusted % table->line_range);
    }
    begin_sequence(&machine);
    while (reader.rest.at < reader.rest.end && !reader.failed) {
        unsigned opcode = *reader.rest.at++;
        if (opcode >= table->opcode_base) {
            machine.address += address_steps[opcode];
            machine.line += (uint32_t)line_steps[opcode];
            put_row(&machine);
        } else if (opcode == 0) {
            run_extended(&machine, &reader);
        } else {
            run_standard(table, &machine, &reader, opcode);
        }
    }
}

/* --- paths --- */

char *line_table_path(const struct line_table *table, uint32_t file,
                      const char *compilation_directory)
{
    if (file >= table->file_count || table->files[file].name == NULL ||
        *table->files[file].name == '\0')
        return NULL;
    const struct line_file *found = &table->files[file];
    const char *directory =
        found->directory < table->directory_count ? table->directories[found->directory] : "";
    const char *parts[] = {compilation_directory, directory, found->name};
    unsigned first = *found->name == '/' ? 2 : *directory == '/' ? 1 : 0;
    size_t size = 1;
    for (unsigned i = first; i < 3; i++)
        size += parts[i] != NULL ? strlen(parts[i]) + 1 : 0;
    char *path = malloc(size), *at = path;
    for (unsigned i = first; i < 3 && path != NULL; i++) {
        if (parts[i] == NULL || *parts[i] == '\0')
            continue;
        if (at > path && at[-1] != '/')
            *at++ = '/';
        at = stpcpy(at, parts[i]);
    }
    if (path != NULL)
        *at = '\0';
    return path;
}
