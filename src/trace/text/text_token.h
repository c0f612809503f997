/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of protobuf's text format, each with its line and column, and the bytes that a string
 * in quotes stands for; of a text in memory, or of one that comes bit by bit, of which no more is
 * held than a token. Knows nothing of messages: see text_format.h.
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
    TEXT_TOKEN_STRING, /* with its quotes */
    TEXT_TOKEN_SIGN,   /* one byte: any other */
};

struct text_token {
    enum text_token_kind kind;
    const char *start;
    size_t length;
    unsigned line, column; /* from 1; a column is a byte */
};

/* How a comment begins that says how the bytes are that the text before it stands for, where they
 * are not those that everybody would write: words of text_value.h. Others skip it as a comment. */
#define TEXT_WIRE_NOTE "# wire:"
#define TEXT_NOTE_BYTES 128

/* Up to size bytes of the text, 0 at its end, or a negative errno with *error set. */
typedef ssize_t text_read(void *context, char *buffer, size_t size, struct error *error);

struct text_scanner {
    const char *begin, *at, *end; /* what is in memory */
    uint64_t offset;              /* of `begin` in the text */
    uint64_t line_offset;         /* of the line's first byte */
    unsigned line;
    struct text_token token; /* the next one */
    /* What the comment on the line of the token before says, if it is a TEXT_WIRE_NOTE. */
    char note[TEXT_NOTE_BYTES];
    struct error *error;
    int code; /* 0 until the first failure */
    /* Of a text that comes bit by bit. */
    text_read *read; /* NULL: there is no more */
    void *context;
    char *buffer;
    size_t capacity;
};

/* Makes the first token the next one. */
void text_scanner_open(struct text_scanner *scanner, const char *text, size_t length,
                       struct error *error);
/* The same of a text that is read as it is needed; to be closed. */
void text_scanner_open_stream(struct text_scanner *scanner, text_read *read, void *context,
                              struct error *error);
void text_scanner_close(struct text_scanner *scanner);
/* Bytes of the text before the next token. */
uint64_t text_scanner_offset(const struct text_scanner *scanner);
void text_scanner_advance(struct text_scanner *scanner);
/* Of a name before ": " and nothing but the digits of a number on the rest of its line, as most
 * lines of a trace's text are: takes all of it at once. False: it is no such line, or the number
 * is larger than `most`; nothing is taken then. */
bool text_scanner_take_line(struct text_scanner *scanner, uint64_t most, uint64_t *value);

/* Notes a failure at the next token; the first one stays. */
void text_scanner_fail(struct text_scanner *scanner, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool text_scanner_is_sign(const struct text_scanner *scanner, char sign)
{
    return scanner->token.kind == TEXT_TOKEN_SIGN && *scanner->token.start == sign;
}

/* Whether it is that sign, which is then behind us. */
static inline bool text_scanner_accept(struct text_scanner *scanner, char sign)
{
    if (!text_scanner_is_sign(scanner, sign))
        return false;
    text_scanner_advance(scanner);
    return true;
}

#define TEXT_FOUND_BYTES 64
/* What stands there, for a message. */
const char *text_scanner_found(const struct text_scanner *scanner, char text[TEXT_FOUND_BYTES]);

/* Appends the bytes of the string that is the next token, and goes on; fails at an escape that is
 * none, and at a zero byte unless the field may have them. */
void text_scanner_take_string(struct text_scanner *scanner, bool zero_allowed,
                              struct proto_buffer *content);

#endif
