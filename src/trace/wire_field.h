/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a protobuf message with all details of their encoding: lengths of keys, lengths and
 * numbers, and groups. For code that must write the same bytes again; proto_cursor.h is for code
 * that only reads.
 */
#ifndef HEAPPROFD_TRACE_WIRE_FIELD_H
#define HEAPPROFD_TRACE_WIRE_FIELD_H

#include <stddef.h>
#include <stdint.h>

#include "trace/proto_cursor.h"

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_GROUP = 3, /* up to its end */
    WIRE_GROUP_END = 4,
    WIRE_FIXED32 = 5,
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;         /* of numbers */
    struct proto_span span; /* contents of bytes and groups */
    size_t key_bytes;
    size_t value_bytes; /* of a varint, or of the length before bytes */
};

static inline size_t wire_length(struct proto_span span)
{
    return (size_t)(span.end - span.at);
}

/* Return the number of bytes that a number needs. */
static inline size_t wire_varint_bytes(uint64_t value)
{
    return (size_t)(64 - __builtin_clzll(value | 1) + 6) / 7;
}

/* Read a varint. Return its number of bytes. Return 0: it is malformed or has more than 64 bits. */
static inline size_t wire_read_varint(struct proto_span *span, uint64_t *value)
{
    uint64_t result = 0;
    const uint8_t *begin = span->at;
    for (unsigned shift = 0; shift < 70 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        if (shift == 63 && byte > 1)
            return 0;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return (size_t)(span->at - begin);
        }
    }
    return 0;
}

/* Read the next field. Return 1: *field is set; 0: the end; -1: malformed. The end of a group must
 * have a key of minimal length. */
int wire_next(struct proto_span *span, struct wire_field *field);

#endif
