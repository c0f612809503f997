/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages of only a few numbers, made in place: a pprof file has a million of them. */
#ifndef HEAPPROFD_EXPORT_SMALL_MESSAGE_H
#define HEAPPROFD_EXPORT_SMALL_MESSAGE_H

#include "trace/proto_buffer.h"

/* At most six numbers. */
struct small_message {
    uint8_t bytes[6 * (1 + PROTO_VARINT_BYTES_MAX)];
    size_t length;
};

/* Append a number, unless it is 0. `field` is below 16. */
static inline void small_message_add(struct small_message *message, uint32_t field, uint64_t value)
{
    if (value == 0)
        return;
    message->bytes[message->length++] = (uint8_t)(field << 3);
    message->length += proto_encode_varint(message->bytes + message->length, value);
}

static inline void small_message_put(struct proto_buffer *buffer, uint32_t field,
                                     const struct small_message *message)
{
    proto_put_bytes(buffer, field, message->bytes, message->length);
}

#endif
