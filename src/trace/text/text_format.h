/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads protobuf's text format: converts a text into the serialized message that it describes, by
 * the message's descriptor. Scalars, enums, strings with all escapes, nested messages in { } or <
 * >, lists in [ ], comments. Messages may be nested 64 deep.
 *
 * An exact reader also accepts fields by number, as text_print.h writes them.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_FORMAT_H
#define HEAPPROFD_TRACE_TEXT_TEXT_FORMAT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "trace/text/text_token.h"
#include "util/error.h"

struct text_format_reader {
    /* Return whether a field that the message does not have is an error. */
    bool (*must_know)(const ProtobufCMessageDescriptor *message);
    const char *unknown_remedy; /* ends the message about such a field; NULL: nothing */
    /* Receive the name of another unknown field, which is skipped. */
    void (*unknown)(void *context, const char *field, unsigned line, unsigned column);
    void *context;
    bool is_exact;
};

/* Return a malloc'd message of *length bytes. Return NULL with a message that begins with line and
 * column, and says what was found and what would be right. */
void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error);

/* Reads a text one outermost field at a time. */
struct text_format_parser {
    struct text_scanner scanner; /* the caller opens and closes it */
    const struct text_format_reader *reader;
    /* Cache of looked-up names. */
    struct {
        const ProtobufCMessageDescriptor *message;
        const ProtobufCFieldDescriptor *field;
        size_t length; /* of its name */
    } known[256];
};

/* Append the next field of the message to `out`. Return 1; 0: the end of the text; a negative errno
 * with the scanner's error set. */
int text_format_read_field(struct text_format_parser *parser,
                           const ProtobufCMessageDescriptor *message, struct proto_buffer *out);

#endif
