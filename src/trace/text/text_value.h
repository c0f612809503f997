/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of single fields in protobuf's text format, and how they are written as bytes. All
 * of them take the tokens that they read, and fail as text_scanner_fail() has it.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H
#define HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H

#include <protobuf-c/protobuf-c.h>

#include "trace/text/text_token.h"
#include "trace/wire_field.h"

/*
 * What a TEXT_WIRE_NOTE says of the bytes of what stands before it, in words:
 *   key=N, length=N   the field's key, and the length of what it holds, take so many bytes
 *   bytes=N           so does the number
 *   value=0x...       the number is this one; the text has what is left of it in the field's type
 *   packed, unpacked  numbers of a repeated field stand in one field or in one each, though the
 *                     descriptor has it otherwise
 *   group             what is in { } is a group
 */
struct wire_note {
    unsigned key_bytes, length_bytes, value_bytes; /* 0: as many as are needed */
    bool has_value, is_packed, is_unpacked, is_group;
    uint64_t value;
};

/* The note behind the last token; an empty one if there is none. */
struct wire_note text_take_note(struct text_scanner *scanner);

/* Writes a number in so many bytes; fails if it needs more. 0: as many as it needs. */
void text_put_padded(struct text_scanner *scanner, struct proto_buffer *out, uint64_t value,
                     unsigned bytes);
void text_put_key(struct text_scanner *scanner, struct proto_buffer *out, uint32_t number,
                  enum wire_type type, unsigned bytes);

/* A number, bool, enum (by its name, or by number where `is_exact`) or double, as its varint's
 * value or its bits. */
uint64_t text_read_scalar(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field,
                          bool is_exact);
enum wire_type text_scalar_type(const ProtobufCFieldDescriptor *field);
/* What a field of whole numbers holds at most; 0: it is another one. */
uint64_t text_largest_of(const ProtobufCFieldDescriptor *field);

/* A whole number and its sign; false: failed. */
bool text_read_integer(struct text_scanner *scanner, uint64_t *magnitude, bool *negative);

/* Strings in a row, as the bytes that they stand for together. */
void text_read_strings(struct text_scanner *scanner, const char *field, bool zero_allowed,
                       struct proto_buffer *content);

#endif
