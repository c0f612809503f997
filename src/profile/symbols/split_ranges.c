/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read address ranges of split units. In DWARF 5 they are in .debug_rnglists, with indexes into
 * .debug_addr; in GNU's extension of DWARF 4, in the program's .debug_ranges.
 */
#include "profile/symbols/split_ranges.h"

#include <dwarf.h>
#include <string.h>

static bool take_number(struct dwarf_bytes *rest, unsigned bytes, uint64_t *value)
{
    *value = 0;
    if (bytes > sizeof(*value) || (size_t)(rest->end - rest->at) < bytes)
        return false;
    memcpy(value, rest->at, bytes); /* little-endian, like the file */
    rest->at += bytes;
    return true;
}

static bool take_leb(struct dwarf_bytes *rest, uint64_t *value)
{
    return dwarf_take_leb(&rest->at, rest->end, value);
}

static bool split_ranges_skip(struct dwarf_bytes *rest, uint64_t bytes)
{
    if (bytes > (uint64_t)(rest->end - rest->at))
        return false;
    rest->at += bytes;
    return true;
}

static bool address_at(const struct split_addresses *unit, uint64_t index, uint64_t *address)
{
    struct dwarf_bytes rest = unit->addresses;
    return index < UINT32_MAX && split_ranges_skip(&rest, index * unit->address_bytes) &&
           take_number(&rest, unit->address_bytes, address);
}

static bool take_indexed(struct split_ranges *ranges, uint64_t *address)
{
    uint64_t index;
    return take_leb(&ranges->rest, &index) && address_at(ranges->unit, index, address);
}

/* --- entries --- */

/* Return the bytes from an attribute's value on. libdw has checked where the value begins, not
 * where it ends. */
static struct dwarf_bytes value_of(const struct split_addresses *unit,
                                   const Dwarf_Attribute *attribute)
{
    return (struct dwarf_bytes){attribute->valp, unit->entries_end};
}

/* Read an attribute in any form of an address. */
static bool address_of(const struct split_addresses *unit, const Dwarf_Attribute *attribute,
                       uint64_t *address)
{
    struct dwarf_bytes value = value_of(unit, attribute);
    uint64_t index;
    if (value.at >= value.end)
        return false;
    switch (attribute->form) {
    case DW_FORM_addr:
        return take_number(&value, unit->address_bytes, address);
    case DW_FORM_addrx:
    case DW_FORM_GNU_addr_index:
        return take_leb(&value, &index) && address_at(unit, index, address);
    case DW_FORM_addrx1:
        return take_number(&value, 1, &index) && address_at(unit, index, address);
    case DW_FORM_addrx2:
        return take_number(&value, 2, &index) && address_at(unit, index, address);
    case DW_FORM_addrx3:
        return take_number(&value, 3, &index) && address_at(unit, index, address);
    case DW_FORM_addrx4:
        return take_number(&value, 4, &index) && address_at(unit, index, address);
    default:
        return false;
    }
}

/* Find the list of an index through the table of offsets after the header. */
static bool find_list(struct split_ranges *ranges, uint64_t index)
{
    struct dwarf_bytes header = ranges->unit->ranges, base;
    uint64_t length, count, offset;
    unsigned offset_bytes = 4;
    if (!take_number(&header, 4, &length))
        return false;
    if (length == UINT32_MAX) {
        offset_bytes = 8;
        if (!take_number(&header, 8, &length))
            return false;
    }
    if (!split_ranges_skip(&header, 4) || !take_number(&header, 4, &count) || index >= count)
        return false;
    base = header;
    if (!split_ranges_skip(&header, index * offset_bytes) ||
        !take_number(&header, offset_bytes, &offset) || !split_ranges_skip(&base, offset))
        return false;
    ranges->rest = base;
    return true;
}

void split_ranges_begin(struct split_ranges *ranges, const struct split_addresses *unit,
                        Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    *ranges = (struct split_ranges){.unit = unit, .base = unit->base};
    if (dwarf_attr(die, DW_AT_low_pc, &attribute) != NULL) {
        if (!address_of(unit, &attribute, &ranges->low) ||
            dwarf_attr(die, DW_AT_high_pc, &attribute) == NULL)
            return;
        if (dwarf_formudata(&attribute, &number) == 0)
            ranges->single = !__builtin_add_overflow(ranges->low, number, &ranges->high);
        else
            ranges->single = address_of(unit, &attribute, &ranges->high);
        return;
    }
    if (dwarf_attr(die, DW_AT_ranges, &attribute) == NULL)
        return;
    /* Read the offset without libdw, which would search for a section that it does not have. */
    struct dwarf_bytes value = value_of(unit, &attribute);
    if (value.at >= value.end)
        return;
    if (attribute.form == DW_FORM_rnglistx) {
        if (take_leb(&value, &number))
            find_list(ranges, number);
    } else if (attribute.form == DW_FORM_sec_offset &&
               take_number(&value, unit->offset_bytes, &number)) {
        ranges->rest = unit->ranges;
        if (!split_ranges_skip(&ranges->rest, number))
            ranges->rest = (struct dwarf_bytes){0};
    }
}

/* --- lists --- */

static bool next_of_pairs(struct split_ranges *ranges, uint64_t *low, uint64_t *high)
{
    unsigned bytes = ranges->unit->address_bytes;
    uint64_t selects = bytes == 8 ? UINT64_MAX : UINT32_MAX;
    while (take_number(&ranges->rest, bytes, low) && take_number(&ranges->rest, bytes, high)) {
        if (*low == 0 && *high == 0)
            return false;
        if (*low == selects) {
            ranges->base = *high;
            continue;
        }
        *low += ranges->base;
        *high += ranges->base;
        return true;
    }
    return false;
}

static bool next_of_list(struct split_ranges *ranges, uint64_t *low, uint64_t *high)
{
    struct dwarf_bytes *rest = &ranges->rest;
    unsigned bytes = ranges->unit->address_bytes;
    uint64_t kind, length;
    while (take_number(rest, 1, &kind)) {
        switch (kind) {
        case DW_RLE_base_addressx:
            if (!take_indexed(ranges, &ranges->base))
                return false;
            continue;
        case DW_RLE_base_address:
            if (!take_number(rest, bytes, &ranges->base))
                return false;
            continue;
        case DW_RLE_startx_endx:
            return take_indexed(ranges, low) && take_indexed(ranges, high);
        case DW_RLE_startx_length:
            return take_indexed(ranges, low) && take_leb(rest, &length) &&
                   !__builtin_add_overflow(*low, length, high);
        case DW_RLE_offset_pair:
            if (!take_leb(rest, low) || !take_leb(rest, high))
                return false;
            *low += ranges->base;
            *high += ranges->base;
            return true;
        case DW_RLE_start_end:
            return take_number(rest, bytes, low) && take_number(rest, bytes, high);
        case DW_RLE_start_length:
            return take_number(rest, bytes, low) && take_leb(rest, &length) &&
                   !__builtin_add_overflow(*low, length, high);
        default:
            return false;
        }
    }
    return false;
}

bool split_ranges_next(struct split_ranges *ranges, uint64_t *low, uint64_t *high)
{
    if (ranges->single) {
        *low = ranges->low;
        *high = ranges->high;
        ranges->single = false;
        return true;
    }
    if (ranges->unit->version < 5)
        return next_of_pairs(ranges, low, high);
    return next_of_list(ranges, low, high);
}
