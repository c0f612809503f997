/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges of entries in units of a split DWARF package. Their addresses are in another file,
 * which libdw cannot be given.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SPLIT_RANGES_H
#define HEAPPROFD_PROFILE_SYMBOLS_SPLIT_RANGES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "profile/symbols/dwarf_bytes.h"

struct split_addresses {
    const uint8_t *entries_end;   /* end of the unit */
    struct dwarf_bytes addresses; /* the unit's part of .debug_addr, after its header */
    struct dwarf_bytes ranges;    /* the unit's .debug_rnglists, or its part of .debug_ranges */
    uint64_t base;                /* base of the unit's ranges */
    unsigned version, address_bytes, offset_bytes;
};

struct split_ranges {
    const struct split_addresses *unit;
    struct dwarf_bytes rest;
    uint64_t base, low, high;
    bool single; /* low and high are the only range */
};

/* Begin the ranges of an entry with DW_AT_low_pc and DW_AT_high_pc, or DW_AT_ranges. */
void split_ranges_begin(struct split_ranges *ranges, const struct split_addresses *unit,
                        Dwarf_Die *die);
/* Read the next range. Return false at the end or if the rest is damaged. */
bool split_ranges_next(struct split_ranges *ranges, uint64_t *low, uint64_t *high);

#endif
