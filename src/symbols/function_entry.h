/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function as its DWARF entry describes it: its name, which may be in the entry's origins or in a
 * supplementary file, and its call site if it is inlined.
 */
#ifndef HEAPPROFD_SYMBOLS_FUNCTION_ENTRY_H
#define HEAPPROFD_SYMBOLS_FUNCTION_ENTRY_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols/dwarf_bytes.h"

struct function_entry {
    bool known;
    const char *function; /* NULL: nameless */
    uint32_t call_line, call_file;
};

#define FUNCTIONS_KNOWN_BITS 12

/* Sections and files that contain texts. The opener of the file sets them. */
struct entry_texts {
    Dwarf *supplementary; /* DWARF 5's, or NULL */
    struct dwarf_bytes entries, supplementary_strings;
    unsigned offset_bytes; /* of the current unit */
    /* Cache of names of inlined functions, by their abstract entries. A new name replaces one with
     * the same hash. */
    struct known_function {
        const void *entry;
        const char *name;
    } functions[1u << FUNCTIONS_KNOWN_BITS];
};

/* Return a string attribute of the entry, or of the entries that describe the same function without
 * its location; NULL: none. The file owns the string. */
const char *entry_string(const struct entry_texts *texts, const Dwarf_Die *entry, unsigned name);
void function_entry_read(struct entry_texts *texts, Dwarf_Die *entry,
                         struct function_entry *function);

#endif
