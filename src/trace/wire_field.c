/* SPDX-License-Identifier: Apache-2.0 */
/* Read fields, and find the ends of groups. */
#include "trace/wire_field.h"

/* Depth of nested groups: the same as that of messages in text. */
#define GROUPS_MAX 70

/* Read a field without the contents of a group. */
static int read_head(struct proto_span *span, struct wire_field *field)
{
    uint64_t key, length;
    if (span->at >= span->end)
        return 0;
    size_t key_bytes = wire_read_varint(span, &key);
    if (key_bytes == 0 || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return -1;
    *field = (struct wire_field){
        .number = (uint32_t)(key >> 3), .type = (enum wire_type)(key & 7), .key_bytes = key_bytes};
    switch (field->type) {
    case WIRE_VARINT:
        field->value_bytes = wire_read_varint(span, &field->value);
        return field->value_bytes > 0 ? 1 : -1;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        length = field->type == WIRE_FIXED64 ? 8 : 4;
        if (length > wire_length(*span))
            return -1;
        memcpy(&field->value, span->at, length);
        span->at += length;
        return 1;
    case WIRE_BYTES:
        field->value_bytes = wire_read_varint(span, &length);
        if (field->value_bytes == 0 || length > wire_length(*span))
            return -1;
        field->span = (struct proto_span){span->at, span->at + length};
        span->at += length;
        return 1;
    case WIRE_GROUP:
    case WIRE_GROUP_END:
        return 1;
    }
    return -1;
}

/* Skip to after the end of a group. *end is where the end's key begins. */
static int skip_group(struct proto_span *span, uint32_t number, const uint8_t **end)
{
    uint32_t open[GROUPS_MAX] = {number};
    size_t depth = 1;
    while (depth > 0) {
        struct wire_field field;
        *end = span->at;
        if (read_head(span, &field) <= 0)
            return -1;
        if (field.type == WIRE_GROUP) {
            if (depth == GROUPS_MAX)
                return -1;
            open[depth++] = field.number;
        } else if (field.type == WIRE_GROUP_END) {
            uint64_t key = (uint64_t)field.number << 3 | WIRE_GROUP_END;
            if (field.number != open[--depth] || field.key_bytes != wire_varint_bytes(key))
                return -1;
        }
    }
    return 1;
}

int wire_next(struct proto_span *span, struct wire_field *field)
{
    int status = read_head(span, field);
    if (status <= 0 || (field->type != WIRE_GROUP && field->type != WIRE_GROUP_END))
        return status;
    if (field->type == WIRE_GROUP_END)
        return -1;
    field->span.at = span->at;
    return skip_group(span, field->number, &field->span.end);
}
