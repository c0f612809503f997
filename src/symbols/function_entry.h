/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an entry of DWARF says of a function: its name, which may stand in the entries that it was
 * made of and in a supplementary file, and from where it was called if it is inlined.
 */
#ifndef HEAPPROFD_SYMBOLS_FUNCTION_ENTRY_H
#define HEAPPROFD_SYMBOLS_FUNCTION_ENTRY_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols/line_table.h" /* struct dwarf_bytes */

struct function_entry {
    bool known;
    const char *function; /* NULL: nameless */
    uint32_t call_line, call_file;
};

#define FUNCTIONS_KNOWN_BITS 12

/* Where texts stand. Set by whoever has opened the file. */
struct entry_texts {
    Dwarf *supplementary; /* DWARF 5's, or NULL */
    struct dwarf_bytes entries, supplementary_strings;
    unsigned offset_bytes; /* of the unit at hand */
    /* Names of functions that were inlined here and there, by their abstract entries; one that has
     * the place of another takes it. */
    struct known_function {
        const void *entry;
        const char *name;
    } functions[1u << FUNCTIONS_KNOWN_BITS];
};

/* An attribute of the entry, or of those that describe the same function without the place; NULL:
 * none. It is the file's. */
const char *entry_string(const struct entry_texts *texts, const Dwarf_Die *entry, unsigned name);
void function_entry_read(struct entry_texts *texts, Dwarf_Die *entry, struct function_entry *words);

#endif
