/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of untrusted bytes: a cursor with an end. A read past the end yields 0
 * and marks the reader as failed. Callers check that once, at the end.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_CFI_READER_H
#define HEAPPROFD_CLIENT_UNWIND_CFI_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfi_reader {
    const uint8_t *at, *end;
    uintptr_t address_delta; /* address of a byte in the process = its address here + this */
    bool failed;
};

/* Pointer encodings of .eh_frame (DW_EH_PE_*): a format, the base that it is relative
 * to, and whether it is the address of the pointer. */
enum {
    CFI_POINTER_OMITTED = 0xff,
    CFI_POINTER_FORMAT = 0x0f,
    CFI_POINTER_ABSOLUTE = 0x00,
    CFI_POINTER_ULEB128 = 0x01,
    CFI_POINTER_UDATA2 = 0x02,
    CFI_POINTER_UDATA4 = 0x03,
    CFI_POINTER_UDATA8 = 0x04,
    CFI_POINTER_SLEB128 = 0x09,
    CFI_POINTER_SDATA2 = 0x0a,
    CFI_POINTER_SDATA4 = 0x0b,
    CFI_POINTER_SDATA8 = 0x0c,
    CFI_POINTER_BASE = 0x70,
    CFI_POINTER_PCREL = 0x10,
    CFI_POINTER_DATAREL = 0x30,
    CFI_POINTER_INDIRECT = 0x80,
};

static inline size_t cfi_reader_left(const struct cfi_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline bool cfi_reader_take(struct cfi_reader *reader, uint64_t bytes)
{
    if (reader->failed || bytes > cfi_reader_left(reader)) {
        reader->failed = true;
        reader->at = reader->end;
        return false;
    }
    reader->at += bytes;
    return true;
}

#define CFI_READ_FIXED(name, type)                                                                 \
    static inline type name(struct cfi_reader *reader)                                             \
    {                                                                                              \
        type value;                                                                                \
        const uint8_t *from = reader->at;                                                          \
        if (!cfi_reader_take(reader, sizeof(value)))                                               \
            return 0;                                                                              \
        __builtin_memcpy(&value, from, sizeof(value));                                             \
        return value;                                                                              \
    }

CFI_READ_FIXED(cfi_read_u8, uint8_t)
CFI_READ_FIXED(cfi_read_u16, uint16_t)
CFI_READ_FIXED(cfi_read_u32, uint32_t)
CFI_READ_FIXED(cfi_read_u64, uint64_t)

static inline uint64_t cfi_read_uleb(struct cfi_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = cfi_read_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->failed = true;
    return 0;
}

static inline int64_t cfi_read_sleb(struct cfi_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = cfi_read_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            if ((byte & 0x40) && shift + 7 < 64)
                value |= ~UINT64_C(0) << (shift + 7);
            return (int64_t)value;
        }
    }
    reader->failed = true;
    return 0;
}

/* Read a pointer in the given encoding; `datarel` is the base of CFI_POINTER_DATAREL.
 * Indirect pointers are not followed: no caller needs their targets. */
uint64_t cfi_read_pointer(struct cfi_reader *reader, uint8_t encoding, uint64_t datarel);

#endif
