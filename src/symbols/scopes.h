/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of one DWARF unit, inlined ones among them, hold given
 * addresses. The unit's entries are passed over once, in the order of the file,
 * most of them in a few nanoseconds; libdw is asked only about functions.
 */
#ifndef HEAPPROFD_SYMBOLS_SCOPES_H
#define HEAPPROFD_SYMBOLS_SCOPES_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/split_ranges.h"

#define SCOPE_NONE UINT32_MAX

struct scope {
    Dwarf_Die die;
    uint32_t parent; /* SCOPE_NONE: a function of its own, not an inlined one */
};

struct scope_scanner {
    struct scope *scopes; /* that hold any of the addresses */
    size_t count, capacity;
    struct abbreviation *abbreviations; /* by code; of the table compiled last */
    size_t abbreviation_count, abbreviation_capacity;
    struct skip_step *steps;
    size_t step_count, step_capacity;
    const uint8_t *table; /* where that one begins */
    unsigned table_shape;
    uint32_t *levels;
    size_t level_capacity;
    uint64_t work_left; /* bounds what hostile files cost */
};

struct scope_unit {
    Dwarf_Die die;
    Dwarf_Off offset, end, abbreviations;                   /* in .debug_info and .debug_abbrev */
    const uint8_t *abbreviations_begin, *abbreviations_end; /* of .debug_abbrev */
    unsigned version, address_bytes, offset_bytes;
    const struct split_addresses
        *split; /* of a unit in a package; NULL: libdw knows its addresses */
};

/* Fills innermost[i] for addresses[i] (sorted): an index of scanner->scopes, or SCOPE_NONE.
 * 0, -EBADMSG: the unit is damaged (what was found before that stands), -ENOMEM, or -E2BIG: the
 * work is used up. */
int scopes_find(struct scope_scanner *scanner, const struct scope_unit *unit,
                const uint64_t *addresses, size_t count, uint32_t *innermost);
void scopes_clear(struct scope_scanner *scanner);

#endif
