/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of single fields in protobuf's text format, and their encoding. All functions take the
 * tokens that they read, and report errors through text_scanner_fail().
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H
#define HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H

#include <protobuf-c/protobuf-c.h>

#include "trace/text/text_token.h"
#include "trace/wire_field.h"

/*
 * What a TEXT_WIRE_NOTE records about the encoding of the preceding text, in words:
 *   key=N, length=N   bytes of the field's key, and of the length of its contents
 *   bytes=N           bytes of the number
 *   value=0x...       the number itself; the text shows its value in the field's type
 *   packed, unpacked  numbers of a repeated field are in one field, or in one field each, unlike
 *                     in the descriptor
 *   group             the contents of { } are a group
 */
struct wire_note {
    unsigned key_bytes, length_bytes, value_bytes; /* 0: minimal */
    bool has_value, is_packed, is_unpacked, is_group;
    uint64_t value;
};

/* Return the note after the last token; it is empty if there is none. */
struct wire_note text_take_note(struct text_scanner *scanner);

/* Write a number in `bytes` bytes; 0: as many as it needs. Fail if it needs more. */
void text_put_padded(struct text_scanner *scanner, struct proto_buffer *out, uint64_t value,
                     unsigned bytes);
void text_put_key(struct text_scanner *scanner, struct proto_buffer *out, uint32_t number,
                  enum wire_type type, unsigned bytes);

/* Read a number, bool, enum (by name, or by number if `is_exact`) or double. Return the value of
 * its varint, or its bits. */
uint64_t text_read_scalar(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field,
                          bool is_exact);
enum wire_type text_scalar_type(const ProtobufCFieldDescriptor *field);
/* Return the largest value of an integer field; 0: it is not an integer field. */
uint64_t text_largest_of(const ProtobufCFieldDescriptor *field);

/* Read a whole number and its sign. Return false after an error. */
bool text_read_integer(struct text_scanner *scanner, uint64_t *magnitude, bool *negative);

/* Append the bytes of adjacent strings. */
void text_read_strings(struct text_scanner *scanner, const char *field, bool zero_allowed,
                       struct proto_buffer *content);

#endif
