/* SPDX-License-Identifier: Apache-2.0 */
/* Scan JSON: eight bytes at a time in texts, byte by byte elsewhere. */
#include "util/json_scanner.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/hex.h"

#define ALL_BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))

void json_scanner_free(struct json_scanner *scanner)
{
    free(scanner->decoded);
    *scanner = (struct json_scanner){0};
}

static enum json_token broken(struct json_scanner *scanner, const char *at, const char *error)
{
    scanner->at = at;
    scanner->error = error;
    return JSON_BROKEN;
}

/* --- texts --- */

/* Return the first byte that is a quote, a backslash or a control character, or `end`. */
static const char *find_special(const char *at, const char *end)
{
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        word = le64toh(word);
        /* The high bit of each byte: the subtraction borrows. It may also borrow from a byte below,
         * which has the bit then. So the lowest bit is right. */
        uint64_t quote = word ^ ALL_BYTES('"'), slash = word ^ ALL_BYTES('\\');
        uint64_t special = ((quote - ALL_BYTES(1)) & ~quote) | ((slash - ALL_BYTES(1)) & ~slash) |
                           ((word - ALL_BYTES(' ')) & ~word);
        special &= ALL_BYTES(0x80);
        if (special != 0)
            return at + __builtin_ctzll(special) / 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= ' ')
        at++;
    return at;
}

/* Read four hexadecimal digits. Return UINT32_MAX if there are none. */
static uint32_t read_unit(const char *at)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        unsigned digit = hex_digit(at[i]);
        if (digit > 15)
            return UINT32_MAX;
        unit = unit << 4 | digit;
    }
    return unit;
}

static size_t put_utf8(char *into, uint32_t character)
{
    if (character < 0x80) {
        into[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        into[0] = (char)(0xc0 | character >> 6);
        into[1] = (char)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        into[0] = (char)(0xe0 | character >> 12);
        into[1] = (char)(0x80 | (character >> 6 & 0x3f));
        into[2] = (char)(0x80 | (character & 0x3f));
        return 3;
    }
    into[0] = (char)(0xf0 | character >> 18);
    into[1] = (char)(0x80 | (character >> 12 & 0x3f));
    into[2] = (char)(0x80 | (character >> 6 & 0x3f));
    into[3] = (char)(0x80 | (character & 0x3f));
    return 4;
}

/* Decode the escape at `*at`, which is valid, and go past it. Return the number of bytes. */
static size_t decode_escape(const char **at, const char *end, char *into)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char *letter = strchr(letters, (*at)[1]);
    if ((*at)[1] != 'u') {
        *into = letter != NULL ? meanings[letter - letters] : (*at)[1];
        *at += 2;
        return 1;
    }
    uint32_t character = read_unit(*at + 2), low = 0;
    *at += 6;
    if (character >> 10 == 0xd800 >> 10 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u')
        low = read_unit(*at + 2);
    if (low >> 10 == 0xdc00 >> 10) {
        *at += 6;
        character = 0x10000 + ((character & 0x3ff) << 10 | (low & 0x3ff));
    } else if (character == 0 || character >> 11 == 0xd800 >> 11) {
        character = 0xfffd;
    }
    return put_utf8(into, character);
}

/* Set the text to the decoded bytes [at, end). No escape becomes longer by decoding. */
static bool decode(struct json_scanner *scanner, const char *at, const char *end)
{
    if (ARRAY_RESERVE(&scanner->decoded, &scanner->decoded_capacity, 0, (size_t)(end - at)) < 0)
        return false;
    char *into = scanner->decoded;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash != NULL ? slash : end) - at);
        memcpy(into, at, plain);
        into += plain;
        at += plain;
        if (slash != NULL)
            into += decode_escape(&at, end, into);
    }
    scanner->text = scanner->decoded;
    scanner->length = (size_t)(into - scanner->decoded);
    return true;
}

/* Check the escape at `*at` and go past it. Return 1; 0: it is not complete; -1: invalid. */
static int skip_escape(const char **at, const char *end)
{
    if (end - *at < 2)
        return 0;
    if ((*at)[1] != 'u') {
        if ((*at)[1] == '\0' || strchr("\"\\/bfnrt", (*at)[1]) == NULL)
            return -1;
        *at += 2;
        return 1;
    }
    for (int i = 2; i < 6; i++) {
        if (*at + i == end)
            return 0;
        if (hex_digit((*at)[i]) > 15)
            return -1;
    }
    *at += 6;
    return 1;
}

/* Scan a text, whose quote is at `at`. */
static enum json_token scan_text(struct json_scanner *scanner, enum json_token token)
{
    const char *begin = scanner->at + 1, *at = begin + scanner->known, *end = scanner->end;
    for (;;) {
        at = find_special(at, end);
        if ((size_t)(at - begin) > JSON_TEXT_BYTES_MAX)
            return JSON_TOO_LONG;
        if (at == end || *at != '\\')
            break;
        const char *escape = at;
        int complete = skip_escape(&at, end);
        if (complete < 0)
            return broken(scanner, escape + 1, "an invalid escape in a text");
        if (complete == 0)
            break;
    }
    if (at == end || *at == '\\') {
        scanner->known = (size_t)(at - begin);
        return JSON_MORE;
    }
    if (*at != '"')
        return broken(scanner, at, "a control character in a text");
    scanner->known = 0;
    scanner->at = at + 1;
    scanner->text = begin;
    scanner->length = (size_t)(at - begin);
    if (memchr(begin, '\\', scanner->length) != NULL && !decode(scanner, begin, at))
        return JSON_NO_MEMORY;
    return token;
}

/* --- numbers and words --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Go past digits. Return false if there are none before `end`. */
static bool skip_digits(const char **at, const char *end)
{
    const char *begin = *at;
    while (*at < end && is_digit(**at))
        ++*at;
    return *at > begin;
}

static enum json_token scan_number(struct json_scanner *scanner)
{
    const char *at = scanner->at, *end = scanner->end;
    bool complete = true;
    at += *at == '-';
    if (at < end && *at == '0')
        at++;
    else
        complete = skip_digits(&at, end);
    if (complete && at < end && *at == '.') {
        at++;
        complete = skip_digits(&at, end);
    }
    if (complete && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        complete = skip_digits(&at, end);
    }
    if ((size_t)(at - scanner->at) > JSON_NUMBER_BYTES_MAX)
        return JSON_TOO_LONG;
    if (at == end)
        return JSON_MORE; /* it may have more digits */
    if (!complete)
        return broken(scanner, at, "a number without a digit where one must be");
    scanner->text = scanner->at;
    scanner->length = (size_t)(at - scanner->at);
    scanner->at = at;
    return JSON_NUMBER;
}

static enum json_token scan_word(struct json_scanner *scanner, const char *word,
                                 enum json_token token)
{
    size_t length = strlen(word), left = (size_t)(scanner->end - scanner->at);
    for (size_t i = 0; i < length; i++) {
        if (i == left)
            return JSON_MORE;
        if (scanner->at[i] != word[i])
            return broken(scanner, scanner->at + i + 1, "a word other than null, true and false");
    }
    scanner->at += length;
    return token;
}

/* --- structure --- */

static bool is_in_list(const struct json_scanner *scanner)
{
    unsigned level = scanner->depth - 1;
    return (scanner->lists[level / 64] >> level % 64 & 1) != 0;
}

static enum json_token open(struct json_scanner *scanner, bool list)
{
    unsigned level = scanner->depth;
    if (level == JSON_DEPTH_MAX)
        return JSON_TOO_DEEP;
    uint64_t bit = UINT64_C(1) << level % 64, *word = &scanner->lists[level / 64];
    *word = list ? *word | bit : *word & ~bit;
    scanner->depth++;
    scanner->at++;
    scanner->expected = list ? JSON_EXPECT_FIRST_VALUE : JSON_EXPECT_FIRST_KEY;
    return list ? JSON_LIST : JSON_OBJECT;
}

static enum json_token close(struct json_scanner *scanner)
{
    scanner->at++;
    scanner->depth--;
    scanner->expected = scanner->depth > 0 ? JSON_EXPECT_COMMA : JSON_EXPECT_NOTHING;
    return JSON_CLOSE;
}

static enum json_token scan_value(struct json_scanner *scanner)
{
    enum json_token token;
    switch (*scanner->at) {
    case '{':
        return open(scanner, false);
    case '[':
        return open(scanner, true);
    case '"':
        token = scan_text(scanner, JSON_TEXT);
        break;
    case 'n':
        token = scan_word(scanner, "null", JSON_NULL);
        break;
    case 't':
        token = scan_word(scanner, "true", JSON_TRUE);
        break;
    case 'f':
        token = scan_word(scanner, "false", JSON_FALSE);
        break;
    default:
        if (*scanner->at != '-' && !is_digit(*scanner->at))
            return broken(scanner, scanner->at + 1, "a value was expected");
        token = scan_number(scanner);
    }
    if (token >= JSON_NULL)
        scanner->expected = scanner->depth > 0 ? JSON_EXPECT_COMMA : JSON_EXPECT_NOTHING;
    return token;
}

static enum json_token scan_key(struct json_scanner *scanner)
{
    if (*scanner->at != '"')
        return broken(scanner, scanner->at + 1, "a key was expected");
    enum json_token token = scan_text(scanner, JSON_KEY);
    if (token == JSON_KEY)
        scanner->expected = JSON_EXPECT_COLON;
    return token;
}

/* Go past a comma or colon. Return 1; 0: the object or list ends here; -1: there is neither. */
static int skip_separator(struct json_scanner *scanner)
{
    char c = *scanner->at;
    if (scanner->expected == JSON_EXPECT_COLON) {
        if (c != ':')
            return -1;
        scanner->expected = JSON_EXPECT_VALUE;
    } else {
        bool list = is_in_list(scanner);
        if (c == (list ? ']' : '}'))
            return 0;
        if (c != ',')
            return -1;
        scanner->expected = list ? JSON_EXPECT_VALUE : JSON_EXPECT_KEY;
    }
    scanner->at++;
    return 1;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

enum json_token json_scan(struct json_scanner *scanner)
{
    for (;;) {
        while (scanner->at < scanner->end && is_blank(*scanner->at))
            scanner->at++;
        if (scanner->at == scanner->end)
            return JSON_MORE;
        int separated;
        switch (scanner->expected) {
        case JSON_EXPECT_FIRST_VALUE:
            if (*scanner->at == ']')
                return close(scanner);
            return scan_value(scanner);
        case JSON_EXPECT_VALUE:
            return scan_value(scanner);
        case JSON_EXPECT_FIRST_KEY:
            if (*scanner->at == '}')
                return close(scanner);
            return scan_key(scanner);
        case JSON_EXPECT_KEY:
            return scan_key(scanner);
        case JSON_EXPECT_COLON:
        case JSON_EXPECT_COMMA:
            separated = skip_separator(scanner);
            if (separated == 0)
                return close(scanner);
            if (separated < 0)
                return broken(scanner, scanner->at + 1,
                              scanner->expected == JSON_EXPECT_COLON
                                  ? "a colon was expected after a key"
                                  : "a comma or the end of an object or list was expected");
            break;
        case JSON_EXPECT_NOTHING:
            return broken(scanner, scanner->at + 1, "more after the end");
        }
    }
}
