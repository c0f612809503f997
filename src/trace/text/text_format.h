/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's text format, read: turns a text into the serialized message that it describes, by the
 * message's descriptor. Scalars, enums, strings with all their escapes, nested messages in { } or
 * < >, lists in [ ], comments; messages nested at most 64 deep.
 *
 * An exact reader also takes what text_print.h writes beyond that: fields by number, and notes on
 * how bytes are.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_FORMAT_H
#define HEAPPROFD_TRACE_TEXT_TEXT_FORMAT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "trace/text/text_token.h"
#include "util/error.h"

struct text_format_reader {
    /* Whether a field that the message does not have is an error. */
    bool (*must_know)(const ProtobufCMessageDescriptor *message);
    /* Told of the others, which are skipped. */
    void (*unknown)(void *context, const char *field, unsigned line, unsigned column);
    void *context;
    bool is_exact;
};

/* A malloc'd message of *length bytes; NULL with a message that begins with line and column and
 * says what was found and what would be right. */
void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error);

/* Reads a text one outermost field after the other. */
struct text_format_parser {
    struct text_scanner scanner; /* opened and closed by the caller */
    const struct text_format_reader *reader;
    /* Names that were looked up. */
    struct {
        const ProtobufCMessageDescriptor *message;
        const ProtobufCFieldDescriptor *field;
        size_t length; /* of its name */
    } known[256];
};

/* Appends the next field of the message to out. 1; 0: the text has ended; a negative errno with the
 * scanner's error set. */
int text_format_read_field(struct text_format_parser *parser,
                           const ProtobufCMessageDescriptor *message, struct proto_buffer *out);

#endif
