/* SPDX-License-Identifier: Apache-2.0 */
/* Split text into tokens, in memory or as it is read. */
#include "trace/text/text_token.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hex.h"

#define FOUND_SHOWN_BYTES 40

void text_scanner_fail(struct text_scanner *scanner, const char *format, ...)
{
    char what[400];
    va_list arguments;
    if (scanner->code < 0)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    scanner->code = error_set(scanner->error, -EINVAL, "%u:%u: %s", scanner->token.line,
                              scanner->token.column, what);
}

/* Bytes of words and numbers: one access for each byte of the text. */
static const bool word_bytes[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['_'] = true};

static bool is_word_byte(char c)
{
    return word_bytes[(unsigned char)c];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_start(char c)
{
    return is_word_byte(c) && !is_digit(c);
}

/* --- text from a stream --- */

#define READ_BYTES ((size_t)256 << 10)
/* No trace has a longer token: a packet has at most 256 MiB, and a byte takes at most four
 * characters. */
#define TOKEN_BYTES_MAX ((size_t)1100 << 20)

/* Move the text from `keep` on to the start of the buffer, set the position there, and read more
 * text. Return false if there is no more. */
static bool take_more(struct text_scanner *scanner, const char *keep)
{
    size_t kept = (size_t)(scanner->end - keep);
    if (scanner->read == NULL || scanner->code < 0)
        return false;
    if (kept > TOKEN_BYTES_MAX) {
        text_scanner_fail(scanner, "the token that begins here has no end within 1 GiB");
        return false;
    }
    if (scanner->capacity < 2 * kept + READ_BYTES) {
        size_t wanted = 3 * kept + READ_BYTES;
        char *grown = malloc(wanted);
        if (grown == NULL) {
            scanner->code = error_set(scanner->error, -ENOMEM, "no memory to read the text");
            return false;
        }
        if (kept > 0)
            memcpy(grown, keep, kept);
        scanner->offset += (uint64_t)(keep - scanner->begin);
        free(scanner->buffer);
        scanner->buffer = grown;
        scanner->capacity = wanted;
    } else {
        scanner->offset += (uint64_t)(keep - scanner->begin);
        memmove(scanner->buffer, keep, kept);
    }
    scanner->begin = scanner->at = scanner->buffer;
    scanner->end = scanner->buffer + kept;
    /* The kept text is scanned again. Read at least as much new text, or a long string that arrives
     * in small parts would take quadratic time. */
    size_t added = 0;
    ssize_t got;
    do {
        got = scanner->read(scanner->context, scanner->buffer + kept + added,
                            scanner->capacity - kept - added, scanner->error);
        added += got > 0 ? (size_t)got : 0;
    } while (got > 0 && added < kept);
    scanner->end += added;
    if (got < 0)
        scanner->code = (int)got;
    if (got <= 0)
        scanner->read = NULL;
    return added > 0;
}

/* --- tokens --- */

/* Skip a comment up to the end of its line. */
static void skip_comment(struct text_scanner *scanner)
{
    const char *newline;
    do
        newline = memchr(scanner->at, '\n', (size_t)(scanner->end - scanner->at));
    while (newline == NULL && take_more(scanner, scanner->at));
    scanner->at = newline != NULL ? newline : scanner->end;
}

static uint64_t offset_of(const struct text_scanner *scanner, const char *at)
{
    return scanner->offset + (uint64_t)(at - scanner->begin);
}

static void skip_blanks(struct text_scanner *scanner)
{
    for (;;) {
        const char *at = scanner->at, *end = scanner->end;
        while (at < end && *at == ' ')
            at++;
        scanner->at = at;
        if (scanner->at == scanner->end) {
            if (!take_more(scanner, scanner->at))
                return;
        } else if (*scanner->at == '\n') {
            scanner->at++;
            scanner->line++;
            scanner->line_offset = offset_of(scanner, scanner->at);
        } else if (*scanner->at == '#') {
            skip_comment(scanner);
        } else if (*scanner->at == '\t' || (*scanner->at >= '\v' && *scanner->at <= '\r')) {
            scanner->at++;
        } else {
            return;
        }
    }
}

/* Skip a string. It ends on its line, and a character after a backslash is not its closing quote.
 */
static void scan_string(struct text_scanner *scanner)
{
    char quote = *scanner->at++;
    while (scanner->at < scanner->end && *scanner->at != quote && *scanner->at != '\n') {
        if (*scanner->at == '\\' && scanner->at + 1 < scanner->end && scanner->at[1] != '\n')
            scanner->at++;
        scanner->at++;
    }
    if (scanner->at < scanner->end && *scanner->at == quote)
        scanner->at++;
}

/* Return whether the scanned string has its closing quote. */
static bool is_closed(const struct text_scanner *scanner)
{
    const char *start = scanner->token.start, *last = scanner->at - 1;
    size_t backslashes = 0;
    if (last <= start || *last != *start)
        return false;
    while (last - backslashes - 1 > start && last[-1 - (ptrdiff_t)backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 0;
}

/* Skip a number. It may have a sign after its exponent: 1.5e-3. In a hexadecimal number, e is a
 * digit. */
static void scan_number(struct text_scanner *scanner)
{
    const char *start = scanner->at, *end = scanner->end;
    bool is_hex = end - start > 1 && *start == '0' && (start[1] == 'x' || start[1] == 'X');
    for (; scanner->at < end; scanner->at++) {
        char c = *scanner->at;
        if (is_digit(c))
            continue;
        bool is_exponent_sign = (c == '+' || c == '-') && !is_hex && scanner->at > start &&
                                (scanner->at[-1] == 'e' || scanner->at[-1] == 'E');
        if (!is_word_byte(c) && c != '.' && !is_exponent_sign)
            return;
    }
}

static void scan_word(struct text_scanner *scanner)
{
    const char *at = scanner->at, *end = scanner->end;
    while (at < end && is_word_byte(*at))
        at++;
    scanner->at = at;
}

/* Skip the token that begins here. Return its kind. */
static enum text_token_kind scan_token(struct text_scanner *scanner)
{
    char c = *scanner->at;
    if (c == '"' || c == '\'') {
        scan_string(scanner);
        return TEXT_TOKEN_STRING;
    }
    if (is_word_start(c)) {
        scan_word(scanner);
        return TEXT_TOKEN_WORD;
    }
    if (is_digit(c) || (c == '.' && scanner->at + 1 < scanner->end && is_digit(scanner->at[1]))) {
        scan_number(scanner);
        return TEXT_TOKEN_NUMBER;
    }
    scanner->at++;
    return TEXT_TOKEN_SIGN;
}

void text_scanner_advance(struct text_scanner *scanner)
{
    struct text_token *token = &scanner->token;
    skip_blanks(scanner);
    *token = (struct text_token){
        .start = scanner->at,
        .line = scanner->line,
        .column = (unsigned)(offset_of(scanner, scanner->at) - scanner->line_offset) + 1};
    if (scanner->at >= scanner->end)
        return;
    do {
        token->start = scanner->at;
        token->kind = scan_token(scanner);
        /* A token that ends at the end of the buffer may continue: scan it again after reading
         * more. */
    } while (scanner->at == scanner->end && take_more(scanner, token->start));
    if (scanner->at == scanner->begin) { /* there was no more text */
        token->start = scanner->at;
        token->kind = scan_token(scanner);
    }
    token->length = (size_t)(scanner->at - token->start);
    if (token->kind == TEXT_TOKEN_STRING && !is_closed(scanner)) {
        text_scanner_fail(scanner,
                          "the string that begins here has no end on this line: %c is missing",
                          *token->start);
        scanner->at = scanner->end;
    }
}

/* Digits that always fit 64 bits. */
#define SAFE_DIGITS 19

bool text_scanner_take_line(struct text_scanner *scanner, uint64_t most, uint64_t *value)
{
    const char *at = scanner->at;
    size_t digits = 0;
    uint64_t number = 0;
    if (scanner->end - at < 2 + SAFE_DIGITS + 1 || at[0] != ':' || at[1] != ' ')
        return false;
    at += 2;
    for (; digits < SAFE_DIGITS && is_digit(at[digits]); digits++)
        number = number * 10 + (uint64_t)(at[digits] - '0');
    bool is_octal = at[0] == '0' && digits > 1;
    if (digits == 0 || at[digits] != '\n' || is_octal || number > most)
        return false;
    scanner->at = at + digits;
    text_scanner_advance(scanner);
    *value = number;
    return true;
}

void text_scanner_open(struct text_scanner *scanner, const char *text, size_t length,
                       struct error *error)
{
    *scanner = (struct text_scanner){
        .begin = text, .at = text, .end = text + length, .line = 1, .error = error};
    text_scanner_advance(scanner);
}

void text_scanner_open_stream(struct text_scanner *scanner, text_read *read, void *context,
                              struct error *error)
{
    static const char none[1];
    *scanner = (struct text_scanner){.begin = none,
                                     .at = none,
                                     .end = none,
                                     .line = 1,
                                     .read = read,
                                     .context = context,
                                     .error = error};
    text_scanner_advance(scanner);
}

uint64_t text_scanner_offset(const struct text_scanner *scanner)
{
    return offset_of(scanner, scanner->token.start);
}

void text_scanner_close(struct text_scanner *scanner)
{
    free(scanner->buffer);
    scanner->buffer = NULL;
}

const char *text_scanner_found(const struct text_scanner *scanner, char text[TEXT_FOUND_BYTES])
{
    const struct text_token *token = &scanner->token;
    if (token->kind == TEXT_TOKEN_END)
        return "the end of the text";
    size_t shown = token->length < FOUND_SHOWN_BYTES ? token->length : FOUND_SHOWN_BYTES;
    char *to = text;
    *to++ = '\'';
    for (size_t i = 0; i < shown; i++)
        *to++ = token->start[i] >= ' ' && token->start[i] < 0x7f ? token->start[i] : '?';
    strcpy(to, shown < token->length ? "...'" : "'");
    return text;
}

/* --- the value of a string --- */

/* Read up to `most` digits of this base from *at on. Return how many there are. */
static unsigned take_digits(const char **at, const char *end, unsigned base, unsigned most,
                            uint32_t *value)
{
    unsigned digits = 0;
    *value = 0;
    for (; digits < most && *at < end; digits++, (*at)++) {
        unsigned digit = hex_digit(**at);
        if (digit >= base)
            break;
        *value = *value * base + digit;
    }
    return digits;
}

static bool put_utf8(struct proto_buffer *content, uint32_t point)
{
    uint8_t bytes[4];
    size_t length = 0;
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return false;
    if (point < 0x80) {
        bytes[length++] = (uint8_t)point;
    } else if (point < 0x800) {
        bytes[length++] = (uint8_t)(0xc0 | point >> 6);
    } else if (point < 0x10000) {
        bytes[length++] = (uint8_t)(0xe0 | point >> 12);
        bytes[length++] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    } else {
        bytes[length++] = (uint8_t)(0xf0 | point >> 18);
        bytes[length++] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
        bytes[length++] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    }
    if (point >= 0x80)
        bytes[length++] = (uint8_t)(0x80 | (point & 0x3f));
    proto_put_raw(content, bytes, length);
    return true;
}

/* Read the digits of \u or \U. Two halves of a UTF-16 surrogate pair are one character. */
static bool take_code_point(const char **at, const char *end, unsigned digits,
                            struct proto_buffer *content)
{
    uint32_t point, low;
    if (take_digits(at, end, 16, digits, &point) != digits)
        return false;
    if (digits == 4 && point >= 0xd800 && point < 0xdc00) {
        const char *second = *at + 2;
        if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' ||
            take_digits(&second, end, 16, 4, &low) != 4 || low < 0xdc00 || low >= 0xe000)
            return false;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        *at = second;
    }
    return put_utf8(content, point);
}

/* Read one escape after its backslash. */
static bool take_escape(const char **at, const char *end, struct proto_buffer *content)
{
    static const char names[] = "abfnrtv\\'\"?", bytes[] = "\a\b\f\n\r\t\v\\'\"?";
    uint32_t value = 0;
    const char *name = **at != 0 ? strchr(names, **at) : NULL;
    if (name != NULL) {
        (*at)++;
        proto_put_raw(content, &bytes[name - names], 1);
        return true;
    }
    char c = **at;
    if (c == 'u' || c == 'U') {
        (*at)++;
        return take_code_point(at, end, c == 'u' ? 4 : 8, content);
    }
    bool is_hex = c == 'x' || c == 'X';
    *at += is_hex;
    if (take_digits(at, end, is_hex ? 16 : 8, is_hex ? 2 : 3, &value) == 0 || value > 255)
        return false;
    uint8_t byte = (uint8_t)value;
    proto_put_raw(content, &byte, 1);
    return true;
}

void text_scanner_take_string(struct text_scanner *scanner, bool zero_allowed,
                              struct proto_buffer *content)
{
    char found[TEXT_FOUND_BYTES];
    const char *at = scanner->token.start + 1;
    const char *end = scanner->token.start + scanner->token.length - 1;
    while (at < end) {
        const char *start = at++;
        size_t length_before = content->length;
        bool is_good = true;
        if (*start == '\\')
            is_good = at < end && take_escape(&at, end, content);
        else
            proto_put_raw(content, start, 1);
        if (!is_good) {
            text_scanner_fail(scanner, "the string %s has an invalid escape: %.*s",
                              text_scanner_found(scanner, found),
                              (int)(end - start < 10 ? end - start : 10), start);
            return;
        }
        if (!zero_allowed && content->length > length_before &&
            content->bytes[length_before] == 0) {
            text_scanner_fail(scanner, "the string %s has a zero byte, which no name can have",
                              text_scanner_found(scanner, found));
            return;
        }
    }
    text_scanner_advance(scanner);
}
