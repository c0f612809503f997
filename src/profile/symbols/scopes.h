/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions of one DWARF unit, including inlined ones, that contain given addresses. One
 * pass skips over the unit's entries in file order, most of them in a few nanoseconds. Only
 * functions are read through libdw.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SCOPES_H
#define HEAPPROFD_PROFILE_SYMBOLS_SCOPES_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/symbols/split_ranges.h"

#define SCOPE_NONE UINT32_MAX

struct scope {
    Dwarf_Die die;
    uint32_t parent; /* SCOPE_NONE: not an inlined function */
};

struct scope_scanner {
    struct scope *scopes; /* functions that contain wanted addresses */
    size_t count, capacity;
    struct abbreviation *abbreviations; /* by code; of the table that was compiled last */
    size_t abbreviation_count, abbreviation_capacity;
    struct skip_step *steps;
    size_t step_count, step_capacity;
    const uint8_t *table; /* start of that table */
    unsigned table_shape;
    uint32_t *levels;
    size_t level_capacity;
    uint64_t work_left; /* limit for hostile files */
};

struct scope_unit {
    Dwarf_Die die;
    Dwarf_Off offset, end, abbreviations; /* offsets in .debug_info and .debug_abbrev */
    const uint8_t *abbreviations_begin, *abbreviations_end; /* of .debug_abbrev */
    unsigned version, address_bytes, offset_bytes;
    const struct split_addresses
        *split; /* of a unit in a package; NULL: libdw can read its addresses */
};

/* Set innermost[i] for addresses[i] (sorted): an index of scanner->scopes, or SCOPE_NONE. Return 0,
 * -EBADMSG (the unit is damaged; results before the damage are valid), -ENOMEM, or -E2BIG: the work
 * limit is reached. */
int scopes_find(struct scope_scanner *scanner, const struct scope_unit *unit,
                const uint64_t *addresses, size_t count, uint32_t *innermost);
void scopes_clear(struct scope_scanner *scanner);

#endif
