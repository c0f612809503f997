/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer that a protobuf message is written into field by field.
 * A message is the concatenation of its fields, so what repeats many thousand
 * times (interned entries, samples) is appended here as it comes and never
 * exists as a tree. Leaf messages are protobuf-c's.
 *
 * Out of memory is remembered in `failed`; what is put after that is lost.
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

/* Room for this many bytes more, or NULL. The caller adds to length. */
uint8_t *proto_buffer_reserve(struct proto_buffer *buffer, size_t bytes);

/* A number alone, as packed fields hold them. */
void proto_put_varint(struct proto_buffer *buffer, uint64_t value);
void proto_put_raw(struct proto_buffer *buffer, const void *bytes, size_t length);
void proto_put_uint(struct proto_buffer *buffer, uint32_t field, uint64_t value);
void proto_put_bytes(struct proto_buffer *buffer, uint32_t field, const void *bytes, size_t length);
void proto_put_string(struct proto_buffer *buffer, uint32_t field, const char *string);
void proto_put_message(struct proto_buffer *buffer, uint32_t field,
                       const ProtobufCMessage *message);

/* Writes a varint at `at`, which has PROTO_VARINT_BYTES_MAX bytes of room; returns its length. */
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
