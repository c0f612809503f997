/* SPDX-License-Identifier: Apache-2.0 */
/* The symbols of code in one symbol table of an ELF file, in the table's order. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_TABLE_H
#define HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_TABLE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct symbol {
    uint64_t start, end; /* end == start: the file contains no size */
    uint64_t section_end;
    const char *name; /* of a function not read yet: names are most of the file's bytes */
    unsigned char type, binding;
};

struct symbol_table {
    Elf *elf; /* owns the names */
    bool is_64_bit;
    Elf_Data *data;
    const char *strings;
    size_t strings_size;
    size_t count; /* of entries; the first one is reserved and not a symbol */
};

/* Find the file's only table of this type (SHT_SYMTAB, SHT_DYNSYM). Return whether it contains a
 * symbol of code. */
bool symbol_table_find(struct symbol_table *table, Elf *elf, unsigned type);

/* The section of the last symbol: most symbols are in .text. Begins as {0}. */
struct symbol_section {
    unsigned index;
    bool holds_code;
    uint64_t start, end;
};

/* Get the symbol with this index. Return false if it does not name code. */
bool symbol_table_get(const struct symbol_table *table, size_t index,
                      struct symbol_section *section, struct symbol *symbol);

/* Read an entry of the table as it is. Return false if it cannot be read. */
static inline bool symbol_table_entry(const struct symbol_table *table, size_t index,
                                      GElf_Sym *entry)
{
    if (!table->is_64_bit)
        return gelf_getsym(table->data, (int)index, entry) != NULL;
    /* gelf_getsym() takes longer than all the rest. */
    memcpy(entry, (const char *)table->data->d_buf + index * sizeof(*entry), sizeof(*entry));
    return true;
}

#endif
