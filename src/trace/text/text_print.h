/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's text format, written: the fields of a serialized message in the order in which they
 * stand, by the names of its descriptor, each on a line of its own.
 *
 * Exact: text_format.h reads back the same bytes. What the descriptor does not know stands by its
 * number (123: 5, 123: 0x00000005 for 32 bits, 123: 0x0000000000000005 for 64, 123: "bytes",
 * 123 { } for what reads as a message). Where bytes are not those that everybody would write for
 * the text, a comment behind it says how they are: TEXT_WIRE_NOTE in text_token.h. A message that
 * is none stands as the bytes that it is.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_PRINT_H
#define HEAPPROFD_TRACE_TEXT_TEXT_PRINT_H

#include <protobuf-c/protobuf-c.h>

#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"

/* The names of a message's fields and of all messages in it, ready to be written. */
struct text_schema;
struct text_schema *text_schema_new(const ProtobufCMessageDescriptor *descriptor); /* or NULL */
void text_schema_free(struct text_schema *schema);

/* Appends the fields; false: these are no fields, and nothing was appended. */
bool text_print_fields(const struct text_schema *schema, struct proto_span fields,
                       struct proto_buffer *out);

#endif
