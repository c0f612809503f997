/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of messages that repeat many thousand times in a trace (frames, samples), written in
 * place. protobuf-c takes several times as long: it looks at each field that a message could have,
 * once for its size and once for its bytes.
 *
 * Each function writes a field at a position with enough room, and returns the position after it.
 */
#ifndef HEAPPROFD_TRACE_PROTO_FIELDS_H
#define HEAPPROFD_TRACE_PROTO_FIELDS_H

#include <string.h>

#include "trace/proto_buffer.h"

/* Room for a field that is a number: its key, and its value. */
#define PROTO_FIELD_BYTES_MAX (5 + PROTO_VARINT_BYTES_MAX)

static inline uint8_t *proto_field_uint(uint8_t *at, uint32_t field, uint64_t value)
{
    at += proto_encode_varint(at, (uint64_t)field << 3);
    return at + proto_encode_varint(at, value);
}

static inline uint8_t *proto_field_double(uint8_t *at, uint32_t field, double value)
{
    at += proto_encode_varint(at, (uint64_t)field << 3 | 1);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint8_t *proto_field_message(uint8_t *at, uint32_t field, const uint8_t *bytes,
                                           size_t length)
{
    at += proto_encode_varint(at, (uint64_t)field << 3 | 2);
    at += proto_encode_varint(at, length);
    memcpy(at, bytes, length);
    return at + length;
}

/* The same for numbers, unless they are 0: readers take missing fields as 0. */
static inline uint8_t *proto_field_count(uint8_t *at, uint32_t field, uint64_t value)
{
    return value != 0 ? proto_field_uint(at, field, value) : at;
}

static inline uint8_t *proto_field_figure(uint8_t *at, uint32_t field, double value)
{
    return value != 0 ? proto_field_double(at, field, value) : at;
}

#endif
