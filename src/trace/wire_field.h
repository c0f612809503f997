/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a protobuf message with all that their bytes say: how long keys, lengths and
 * numbers are, and groups. For whoever must write the same bytes again; proto_cursor.h is for
 * those who only read.
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
    uint64_t value;         /* numbers */
    struct proto_span span; /* what is in bytes and groups */
    size_t key_bytes;
    size_t value_bytes; /* of a varint, or of the length of bytes */
};

static inline size_t wire_length(struct proto_span span)
{
    return (size_t)(span.end - span.at);
}

/* Bytes that a number needs. */
static inline size_t wire_varint_bytes(uint64_t value)
{
    return (size_t)(64 - __builtin_clzll(value | 1) + 6) / 7;
}

/* How many bytes it has; 0: it is none, or has more than 64 bits. */
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

/* 1: *field is the next one; 0: the end; -1: these are no fields. A group's end must have the key
 * that everybody writes. */
int wire_next(struct proto_span *span, struct wire_field *field);

#endif
