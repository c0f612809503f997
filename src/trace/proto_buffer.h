/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer to which a protobuf message is written field by field. A message is the
 * concatenation of its fields. So fields that repeat many thousand times (interned entries,
 * samples) are appended one by one, and the message never exists as a tree. Leaf messages are
 * protobuf-c's, or, if there are many thousand, written field by field (proto_fields.h).
 *
 * If memory runs out, `failed` is set and further fields are lost.
 */
#ifndef HEAPPROFD_TRACE_PROTO_BUFFER_H
#define HEAPPROFD_TRACE_PROTO_BUFFER_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proto_buffer {
    uint8_t *bytes;
    size_t length, capacity;
    bool failed;
};

#define PROTO_VARINT_BYTES_MAX 10

void proto_buffer_free(struct proto_buffer *buffer);

/* Reserve room for this many bytes. Return its address or NULL. The caller adds to `length`. */
uint8_t *proto_buffer_reserve(struct proto_buffer *buffer, size_t bytes);

/* Append a number without a key, as in packed fields. */
void proto_put_varint(struct proto_buffer *buffer, uint64_t value);
void proto_put_raw(struct proto_buffer *buffer, const void *bytes, size_t length);
void proto_put_uint(struct proto_buffer *buffer, uint32_t field, uint64_t value);
void proto_put_bytes(struct proto_buffer *buffer, uint32_t field, const void *bytes, size_t length);
void proto_put_string(struct proto_buffer *buffer, uint32_t field, const char *string);
void proto_put_message(struct proto_buffer *buffer, uint32_t field,
                       const ProtobufCMessage *message);

/* Write a varint at `at`, which has PROTO_VARINT_BYTES_MAX bytes of room. Return its length. */
static inline size_t proto_encode_varint(uint8_t *at, uint64_t value)
{
    size_t length = 0;
    while (value >= 0x80) {
        at[length++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[length++] = (uint8_t)value;
    return length;
}

#endif
