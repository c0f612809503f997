/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes protobuf's text format: the fields of a serialized message in their order, with the names
 * of its descriptor, one per line.
 *
 * text_format.h reads the same fields back, in canonical encoding: numbers and lengths as short as
 * can be, within the range of their type, and repeated numbers packed or not as declared. Fields
 * that the descriptor does not have are written by number (123: 5, 123: 0x00000005 for 32 bits,
 * 123: 0x0000000000000005 for 64, 123: "bytes", 123 { } for bytes that parse as a message in
 * canonical encoding). A field that should be a message but cannot be parsed, or has a group in it,
 * is written as bytes.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_PRINT_H
#define HEAPPROFD_TRACE_TEXT_TEXT_PRINT_H

#include <protobuf-c/protobuf-c.h>

#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"

/* Append the fields. Return false if these are not fields; nothing is appended in that case. */
bool text_print_fields(const ProtobufCMessageDescriptor *message, struct proto_span fields,
                       struct proto_buffer *out);

#endif
