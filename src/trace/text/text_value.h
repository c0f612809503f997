/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of single fields in protobuf's text format. All functions take the tokens that they
 * read, and report errors through text_scanner_fail().
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H
#define HEAPPROFD_TRACE_TEXT_TEXT_VALUE_H

#include <protobuf-c/protobuf-c.h>

#include "trace/proto_cursor.h"
#include "trace/text/text_token.h"

/* Read a number, bool, enum (by name, or by number if `is_exact`) or double. Return the value of
 * its varint, or its bits. */
uint64_t text_read_scalar(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field,
                          bool is_exact);
enum proto_type text_scalar_type(const ProtobufCFieldDescriptor *field);
/* Return the largest value of an integer field; 0: it is not an integer field. */
uint64_t text_largest_of(const ProtobufCFieldDescriptor *field);

/* Read a whole number and its sign. Return false after an error. */
bool text_read_integer(struct text_scanner *scanner, uint64_t *magnitude, bool *negative);

/* Append the bytes of adjacent strings. */
void text_read_strings(struct text_scanner *scanner, const char *field, bool zero_allowed,
                       struct proto_buffer *content);

#endif
