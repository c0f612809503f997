/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function as its DWARF entry describes it: its name, which may be in the entry's origins or in a
 * supplementary file, and its call site if it is inlined.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_FUNCTION_ENTRY_H
#define HEAPPROFD_PROFILE_SYMBOLS_FUNCTION_ENTRY_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "profile/symbols/dwarf_bytes.h"

struct function_entry {
    bool known;
    const char *function;          /* as linkers name it, if the entry does; NULL: nameless */
    uint32_t call_line, call_file; /* if it is inlined: where it is called; 0: unknown */
};

#define FUNCTIONS_KNOWN_BITS 12

/* Where the strings of entries are, and a cache. The opener of the file sets all but the cache. */
struct entry_reader {
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

/* Return the entry's string attribute `name` (DW_AT_...). If the entry does not have it, search the
 * entries that it refers to: its abstract instance and declaration. NULL: none has it. The file
 * owns the string. */
const char *entry_string(const struct entry_reader *reader, const Dwarf_Die *entry, unsigned name);
/* Read an entry in one pass. Strings belong to the file. */
void function_entry_read(struct entry_reader *reader, Dwarf_Die *entry,
                         struct function_entry *function);

#endif
