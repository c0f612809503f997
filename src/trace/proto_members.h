/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which field of a protobuf message goes into which member of a struct, as a table:
 *
 *     static const struct proto_member members[] = {
 *         PROTO_MEMBER(PB_HEAP_SIZE_PID, struct heap_size, pid),
 *         PROTO_MEMBER(PB_HEAP_SIZE_LIVE_BYTES, struct heap_size, live_bytes),
 *     };
 *
 * The member's type says how the field is converted. Fields that are not in the table are skipped.
 * Of a repeated field the last one counts.
 */
#ifndef HEAPPROFD_TRACE_PROTO_MEMBERS_H
#define HEAPPROFD_TRACE_PROTO_MEMBERS_H

#include "trace/proto_cursor.h"

enum proto_conversion {
    PROTO_TO_BOOL,
    PROTO_TO_INT32, /* signed or unsigned: the low half of the number */
    PROTO_TO_UINT64,
    PROTO_TO_DOUBLE,       /* finite, see proto_double() */
    PROTO_BITS_TO_DOUBLE,  /* any, for callers that check it */
    PROTO_COUNT_TO_DOUBLE, /* of a varint */
    PROTO_TO_SPAN,
    PROTO_TO_TEXT, /* const char *, for callers that keep texts: proto_store() leaves it alone */
};

struct proto_member {
    uint32_t number; /* of the field */
    uint16_t offset;
    uint8_t conversion; /* enum proto_conversion */
};

#define PROTO_MEMBER(number, type, member)                                                         \
    PROTO_MEMBER_AS(number, type, member,                                                          \
                    _Generic(((type *)NULL)->member,                                               \
                        bool: PROTO_TO_BOOL,                                                       \
                        int32_t: PROTO_TO_INT32,                                                   \
                        uint32_t: PROTO_TO_INT32,                                                  \
                        uint64_t: PROTO_TO_UINT64,                                                 \
                        double: PROTO_TO_DOUBLE,                                                   \
                        struct proto_span: PROTO_TO_SPAN,                                          \
                        const char *: PROTO_TO_TEXT))
#define PROTO_MEMBER_AS(number, type, member, conversion)                                          \
    {                                                                                              \
        number, offsetof(type, member), conversion                                                 \
    }

/* A table and its length, as two arguments. */
#define PROTO_MEMBERS(table) table, sizeof(table) / sizeof((table)[0])

/* Return the member for a field, or NULL. Tables of all fields from 1 on need no search. */
static inline const struct proto_member *proto_member_of(const struct proto_member *members,
                                                         size_t count, uint32_t number)
{
    if (number - 1 < count && members[number - 1].number == number)
        return &members[number - 1];
    for (size_t i = 0; i < count; i++)
        if (members[i].number == number)
            return &members[i];
    return NULL;
}

/* Store a field in the struct `into`. `member` may be NULL. */
static inline void proto_store_as(const struct proto_member *member,
                                  const struct proto_field *field, void *into)
{
    if (member == NULL)
        return;
    void *at = (char *)into + member->offset;
    switch (member->conversion) {
    case PROTO_TO_BOOL:
        *(bool *)at = field->value != 0;
        break;
    case PROTO_TO_INT32:
        *(uint32_t *)at = (uint32_t)field->value;
        break;
    case PROTO_TO_UINT64:
        *(uint64_t *)at = field->value;
        break;
    case PROTO_TO_DOUBLE:
        *(double *)at = proto_double(field);
        break;
    case PROTO_BITS_TO_DOUBLE:
        memcpy(at, &field->value, sizeof(double));
        break;
    case PROTO_COUNT_TO_DOUBLE:
        *(double *)at = (double)field->value;
        break;
    case PROTO_TO_SPAN:
        *(struct proto_span *)at = field->span;
        break;
    }
}

static inline void proto_store(const struct proto_member *members, size_t count,
                               const struct proto_field *field, void *into)
{
    proto_store_as(proto_member_of(members, count, field->number), field, into);
}

/* Store all fields of a message. Return 0, or -1 if it is malformed. */
static inline int proto_read_members(const struct proto_member *members, size_t count,
                                     struct proto_span message, void *into)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0)
        proto_store(members, count, &field, into);
    return status;
}

#endif
