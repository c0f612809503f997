/*
 * Protobuf's text format, read: turns a text into the serialized message that it describes, by the
 * message's descriptor. Scalars, enums, strings with all their escapes, nested messages in { } or
 * < >, lists in [ ], comments; messages nested at most 64 deep.
 */
#ifndef HEAPPROFD_TRACE_TEXT_FORMAT_H
#define HEAPPROFD_TRACE_TEXT_FORMAT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

struct text_format_reader {
    /* Whether a field that the message does not have is an error. */
    bool (*must_know)(const ProtobufCMessageDescriptor *message);
    /* Told of the others, which are skipped. */
    void (*unknown)(void *context, const char *field, unsigned line, unsigned column);
    void *context;
};

/* A malloc'd message of *length bytes; NULL with a message that begins with line and column and
 * says what was found and what would be right. */
void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error);

#endif
