/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a debug section, and the numbers of variable length in them (LEB128). */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DWARF_BYTES_H
#define HEAPPROFD_PROFILE_SYMBOLS_DWARF_BYTES_H

#include <stdbool.h>
#include <stdint.h>

struct dwarf_bytes {
    const uint8_t *at, *end;
};

/* Read an unsigned number. Bits beyond 64 are dropped. Return false if it has no end. */
static inline bool dwarf_take_leb(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

#endif
