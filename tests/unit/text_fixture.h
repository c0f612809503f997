/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of traces for tests, read as a whole or in small pieces. */
#ifndef HEAPPROFD_TESTS_TEXT_FIXTURE_H
#define HEAPPROFD_TESTS_TEXT_FIXTURE_H

#include <string.h>

#include "trace.pb-c.h"
#include "trace/text/text_format.h"

#define TRACE (&perfetto__protos__trace__descriptor)

static bool must_know(const ProtobufCMessageDescriptor *message)
{
    (void)message;
    return true;
}

/* A text that is read in pieces of `step` bytes, which split tokens; step 0: as a whole. */
struct dripping {
    const char *text;
    size_t length, step;
};

static ssize_t drip(void *context, char *buffer, size_t size, struct error *error)
{
    struct dripping *from = context;
    size_t length = from->length < from->step ? from->length : from->step;
    (void)error;
    if (length > size)
        length = size;
    if (length > 0)
        memcpy(buffer, from->text, length);
    from->text += length;
    from->length -= length;
    return (ssize_t)length;
}

static int read_text(struct dripping text, struct proto_buffer *bytes, struct error *error)
{
    static const struct text_format_reader exact = {.must_know = must_know, .is_exact = true};
    struct text_format_parser parser = {.reader = &exact};
    int code;
    if (text.step == 0)
        text_scanner_open(&parser.scanner, text.text, text.length, error);
    else
        text_scanner_open_stream(&parser.scanner, drip, &text, error);
    while ((code = text_format_read_field(&parser, TRACE, bytes)) > 0)
        ;
    text_scanner_close(&parser.scanner);
    return code;
}

#endif
