/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of protobuf's text format, each with its line and column, and the values of quoted
 * strings. The text is in memory or read from a stream, of which only one token is kept in memory.
 * It is independent of messages: see text_format.h.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_TOKEN_H
#define HEAPPROFD_TRACE_TEXT_TEXT_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/proto_buffer.h"
#include "util/error.h"

enum text_token_kind {
    TEXT_TOKEN_END,
    TEXT_TOKEN_WORD,
    TEXT_TOKEN_NUMBER,
    TEXT_TOKEN_STRING, /* including its quotes */
    TEXT_TOKEN_SIGN,   /* any other byte */
};

struct text_token {
    enum text_token_kind kind;
    const char *start;
    size_t length;
    unsigned line, column; /* from 1; columns count bytes */
};

/* Read up to `size` bytes of the text. Return 0 at its end, or a negative errno with *error set. */
typedef ssize_t text_read(void *context, char *buffer, size_t size, struct error *error);

struct text_scanner {
    const char *begin, *at, *end; /* the part in memory */
    uint64_t offset;              /* of `begin` in the text */
    uint64_t line_offset;         /* of the first byte of the current line */
    unsigned line;
    struct text_token token; /* the next one */
    struct error *error;
    int code; /* 0 until the first error */
    /* For a text from a stream. */
    text_read *read; /* NULL: at the end */
    void *context;
    char *buffer;
    size_t capacity;
};

/* Open a text in memory, and read the first token. */
void text_scanner_open(struct text_scanner *scanner, const char *text, size_t length,
                       struct error *error);
/* The same for a text from a stream. Close the scanner afterwards. */
void text_scanner_open_stream(struct text_scanner *scanner, text_read *read, void *context,
                              struct error *error);
void text_scanner_close(struct text_scanner *scanner);
/* Return the offset of the next token in the text. */
uint64_t text_scanner_offset(const struct text_scanner *scanner);
void text_scanner_advance(struct text_scanner *scanner);
/* Take the rest of a whole line at once: the next token is a name, and after it come ": " and the
 * digits of a number, as on most lines of a trace's text. Return false if the line has another form
 * or the number is larger than `most`; nothing is taken in that case. */
bool text_scanner_take_line(struct text_scanner *scanner, uint64_t most, uint64_t *value);

/* Record an error at the next token, unless there is an earlier one. */
void text_scanner_fail(struct text_scanner *scanner, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool text_scanner_is_sign(const struct text_scanner *scanner, char sign)
{
    return scanner->token.kind == TEXT_TOKEN_SIGN && *scanner->token.start == sign;
}

/* Take the next token if it is this sign. Return whether it was. */
static inline bool text_scanner_accept(struct text_scanner *scanner, char sign)
{
    if (!text_scanner_is_sign(scanner, sign))
        return false;
    text_scanner_advance(scanner);
    return true;
}

#define TEXT_FOUND_BYTES 64
/* Return the next token in a form for messages. */
const char *text_scanner_found(const struct text_scanner *scanner, char text[TEXT_FOUND_BYTES]);

/* Append the value of the string that is the next token, and take the token. Fail at an invalid
 * escape, and at a zero byte unless the field may contain it. */
void text_scanner_take_string(struct text_scanner *scanner, bool zero_allowed,
                              struct proto_buffer *content);

#endif
