/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads protobuf messages in place, field by field, without allocating. The reader selects fields
 * by number and wire type and skips all others. A span never extends beyond the bytes that it was
 * made from.
 */
#ifndef HEAPPROFD_TRACE_PROTO_CURSOR_H
#define HEAPPROFD_TRACE_PROTO_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct proto_span {
    const uint8_t *at, *end;
};

enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint32_t number;
    enum proto_type type;
    uint64_t value;         /* of numbers */
    struct proto_span span; /* of PROTO_BYTES, else empty */
};

static inline size_t proto_length(struct proto_span span)
{
    return (size_t)(span.end - span.at);
}

static inline bool proto_read_varint(struct proto_span *span, uint64_t *value)
{
    uint64_t result = 0;
    if (span->at < span->end && *span->at < 0x80) {
        *value = *span->at++;
        return true;
    }
    for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return true;
        }
    }
    return false;
}

/* Read the next field. Return 1: *field is set; 0: the end; -1: malformed. */
static inline int proto_next(struct proto_span *span, struct proto_field *field)
{
    uint64_t key, length;
    if (span->at >= span->end)
        return 0;
    if (!proto_read_varint(span, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return -1;
    field->number = (uint32_t)(key >> 3);
    field->type = (enum proto_type)(key & 7);
    field->span = (struct proto_span){0};
    switch (field->type) {
    case PROTO_VARINT:
        return proto_read_varint(span, &field->value) ? 1 : -1;
    case PROTO_FIXED64:
        if (proto_length(*span) < 8)
            return -1;
        memcpy(&field->value, span->at, 8);
        span->at += 8;
        return 1;
    case PROTO_FIXED32:
        if (proto_length(*span) < 4)
            return -1;
        field->value = 0;
        memcpy(&field->value, span->at, 4);
        span->at += 4;
        return 1;
    case PROTO_BYTES:
        if (!proto_read_varint(span, &length) || length > proto_length(*span))
            return -1;
        field->value = 0;
        field->span = (struct proto_span){span->at, span->at + length};
        span->at += length;
        return 1;
    }
    return -1;
}

static inline double proto_double(const struct proto_field *field)
{
    double value;
    if (field->type != PROTO_FIXED64)
        return 0;
    memcpy(&value, &field->value, sizeof(value));
    /* Neither infinite nor NaN: figures are summed. */
    return value > -1e300 && value < 1e300 ? value : 0;
}

#endif
