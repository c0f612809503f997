/* SPDX-License-Identifier: Apache-2.0 */
/* Append protobuf fields to a growing buffer. */
#include "trace/proto_buffer.h"

#include <stdlib.h>
#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_LENGTH = 2 };

void proto_buffer_free(struct proto_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct proto_buffer){0};
}

uint8_t *proto_buffer_reserve(struct proto_buffer *buffer, size_t bytes)
{
    if (buffer->failed)
        return NULL;
    if (bytes > buffer->capacity - buffer->length) {
        size_t wanted = buffer->capacity * 2 + bytes + 4096;
        uint8_t *grown = realloc(buffer->bytes, wanted);
        if (grown == NULL) {
            buffer->failed = true;
            return NULL;
        }
        buffer->bytes = grown;
        buffer->capacity = wanted;
    }
    return buffer->bytes + buffer->length;
}

void proto_put_raw(struct proto_buffer *buffer, const void *bytes, size_t length)
{
    uint8_t *at = length == 0 ? NULL : proto_buffer_reserve(buffer, length);
    if (at == NULL)
        return;
    memcpy(at, bytes, length);
    buffer->length += length;
}

void proto_put_varint(struct proto_buffer *buffer, uint64_t value)
{
    uint8_t *at = proto_buffer_reserve(buffer, PROTO_VARINT_BYTES_MAX);
    if (at != NULL)
        buffer->length += proto_encode_varint(at, value);
}

static void put_key_and_value(struct proto_buffer *buffer, uint32_t field, enum wire_type type,
                              uint64_t value)
{
    uint8_t *at = proto_buffer_reserve(buffer, 2 * PROTO_VARINT_BYTES_MAX);
    if (at == NULL)
        return;
    size_t length = proto_encode_varint(at, (uint64_t)field << 3 | type);
    length += proto_encode_varint(at + length, value);
    buffer->length += length;
}

void proto_put_uint(struct proto_buffer *buffer, uint32_t field, uint64_t value)
{
    put_key_and_value(buffer, field, WIRE_VARINT, value);
}

void proto_put_bytes(struct proto_buffer *buffer, uint32_t field, const void *bytes, size_t length)
{
    put_key_and_value(buffer, field, WIRE_LENGTH, length);
    proto_put_raw(buffer, bytes, length);
}

void proto_put_string(struct proto_buffer *buffer, uint32_t field, const char *string)
{
    proto_put_bytes(buffer, field, string, strlen(string));
}

void proto_put_message(struct proto_buffer *buffer, uint32_t field, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    put_key_and_value(buffer, field, WIRE_LENGTH, length);
    uint8_t *at = proto_buffer_reserve(buffer, length);
    if (at == NULL)
        return;
    buffer->length += protobuf_c_message_pack(message, at);
}
