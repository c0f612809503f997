/* SPDX-License-Identifier: Apache-2.0 */
/* See json_span.h. */
#include "memory_infra/json_span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 512u
#define NUMBER_BYTES_MAX 101u        /* as long as read_values.c takes them */
#define WHOLE_DIGITS 19u             /* that any 64-bit number can hold */
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* As yajl has it, which is more than JSON. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_blanks(struct json_span *span)
{
    while (span->at < span->end && is_blank(*span->at))
        span->at++;
}

/* Behind the text that begins here; NULL: it does not end. */
static const char *end_of_text(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\')
            at++;
    }
    return NULL;
}

/* Behind the value that begins here. Brackets are counted, not matched. */
static const char *end_of_value(const char *at, const char *end)
{
    unsigned depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = end_of_text(at, end);
            if (at == NULL)
                return NULL;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX)
                return NULL;
            at++;
        } else if (c == '}' || c == ']') {
            if (depth-- == 0)
                return NULL;
            at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < end && !is_blank(*at) && *at != ',' && *at != '}' && *at != ']')
                at++;
        }
        if (depth == 0)
            return at;
    }
    return NULL;
}

bool json_span_open(struct json_span *span, char bracket)
{
    struct json_span inner = *span;
    skip_blanks(&inner);
    while (inner.end > inner.at && is_blank(inner.end[-1]))
        inner.end--;
    if (inner.end - inner.at < 2 || *inner.at != bracket ||
        inner.end[-1] != (bracket == '{' ? '}' : ']'))
        return false;
    *span = (struct json_span){inner.at + 1, inner.end - 1};
    return true;
}

static bool take_value(struct json_span *span, struct json_span *value)
{
    skip_blanks(span);
    value->at = span->at;
    value->end = end_of_value(span->at, span->end);
    if (value->end == NULL || value->end == value->at)
        return false;
    span->at = value->end;
    skip_blanks(span);
    return true;
}

int json_span_next(struct json_span *span, bool of_list, struct json_member *member)
{
    *member = (struct json_member){0};
    skip_blanks(span);
    if (span->at == span->end)
        return 0;
    if (!of_list) {
        if (*span->at != '"' || !take_value(span, &member->key) || span->at == span->end ||
            *span->at != ':')
            return -1;
        span->at++;
    }
    if (!take_value(span, &member->value))
        return -1;
    if (span->at < span->end && *span->at++ != ',')
        return -1;
    return 1;
}

/* --- values --- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Of "\uXXXX" what stands behind the u; -1: it is none. */
static int32_t read_unit(const char *at, const char *end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static size_t put_character(char *out, uint32_t character)
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (char)(0xc0 | character >> 6);
        out[1] = (char)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (char)(0xe0 | character >> 12);
        out[1] = (char)(0x80 | (character >> 6 & 0x3f));
        out[2] = (char)(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | character >> 18);
    out[1] = (char)(0x80 | (character >> 12 & 0x3f));
    out[2] = (char)(0x80 | (character >> 6 & 0x3f));
    out[3] = (char)(0x80 | (character & 0x3f));
    return 4;
}

/* The character of an escape whose "u" is at *at, which is moved behind it. */
static uint32_t read_character(const char **at, const char *end)
{
    int32_t unit = read_unit(*at + 1, end);
    *at += unit < 0 ? 1 : 5;
    if (unit >= 0xd800 && unit < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        int32_t low = read_unit(*at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            *at += 6;
            return 0x10000u + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
        }
    }
    if (unit <= 0 || (unit >= 0xd800 && unit < 0xe000))
        return 0xfffd;
    return (uint32_t)unit;
}

char *json_span_text(struct json_span value)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (value.end - value.at < 2 || *value.at != '"')
        return NULL;
    const char *at = value.at + 1, *end = value.end - 1;
    /* The shortest escape that is longer in UTF-8 is a broken one: two bytes, U+FFFD in three. */
    char *text = malloc(2 * (size_t)(end - at) + 1), *out = text;
    while (text != NULL && at < end) {
        if (*at != '\\' || at + 1 == end) {
            *out++ = *at++;
            continue;
        }
        at++;
        const char *simple = strchr(from, *at);
        if (*at == 'u') {
            out += put_character(out, read_character(&at, end));
            continue;
        }
        *out++ = simple != NULL && *at != '\0' ? to[simple - from] : *at;
        at++;
    }
    if (text != NULL)
        *out = '\0';
    return text;
}

bool json_span_is(struct json_span value, const char *text)
{
    size_t length = strlen(text), plain = (size_t)(value.end - value.at);
    if (plain < 2 || *value.at != '"')
        return false;
    if (plain == length + 2 && memcmp(value.at + 1, text, length) == 0)
        return true;
    if (memchr(value.at, '\\', plain) == NULL)
        return false;
    char *decoded = json_span_text(value);
    bool same = decoded != NULL && strcmp(decoded, text) == 0;
    free(decoded);
    return same;
}

bool json_span_number(struct json_span value, uint64_t *number)
{
    char copy[NUMBER_BYTES_MAX], *end;
    size_t length = (size_t)(value.end - value.at), digits = 0;
    uint64_t whole = 0;
    if (length == 0 || length >= sizeof(copy))
        return false;
    while (digits < length && digits < WHOLE_DIGITS && value.at[digits] >= '0' &&
           value.at[digits] <= '9')
        whole = whole * 10 + (uint64_t)(value.at[digits++] - '0');
    if (digits == length) {
        *number = whole;
        return true;
    }
    memcpy(copy, value.at, length);
    copy[length] = '\0';
    if (strspn(copy, "+-.eE0123456789") != length)
        return false;
    double parsed = strtod(copy, &end);
    if (*end != '\0' || !(parsed >= 0) || parsed > EXACT_MAX || parsed != floor(parsed))
        return false;
    *number = (uint64_t)parsed;
    return true;
}
