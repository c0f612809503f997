/* SPDX-License-Identifier: Apache-2.0 */
/* JSON strings and numbers: escapes text a character at a time, and prints doubles exactly. */
#include "util/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "util/terminal_text.h"
#include "util/utf8.h"

/* Enough digits to tell every double from its neighbours. */
#define DIGITS 17

enum string_form { STRING_PLAIN, STRING_ASCII };

/* Print a multi-byte UTF-8 character as \uXXXX, or as a surrogate pair. */
static void print_wide_character(FILE *out, const unsigned char *at, size_t length)
{
    uint32_t code = *at & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (at[i] & 0x3f);
    if (code >= 0x10000) {
        fprintf(out, "\\u%04" PRIx32, 0xd800 + ((code - 0x10000) >> 10));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    fprintf(out, "\\u%04" PRIx32, code);
}

/* Print the character at `at`, escaped. Return the number of bytes that it occupies. */
static size_t print_escaped(FILE *out, const unsigned char *at)
{
    size_t length = utf8_length(at);
    if (length == 0)
        fputs("\\ufffd", out);
    else if (length > 1)
        print_wide_character(out, at, length);
    else if (*at < 0x20 || *at == 0x7f)
        fprintf(out, "\\u%04x", *at);
    else
        fprintf(out, "\\%c", *at);
    return length > 0 ? length : 1;
}

static bool is_plain(const unsigned char *at, size_t length, enum string_form form)
{
    bool commands = length == 1 ? *at < 0x20 || *at == 0x7f : terminal_text_commands(at, length);
    return *at != '"' && *at != '\\' && !commands && !(form == STRING_ASCII && length > 1);
}

static void print_string(FILE *out, const char *text, enum string_form form)
{
    const unsigned char *at = (const unsigned char *)text, *plain = at;
    fputc('"', out);
    while (*at != '\0') {
        size_t length = utf8_length(at);
        if (is_plain(at, length, form)) {
            at += length;
            continue;
        }
        fwrite(plain, 1, (size_t)(at - plain), out);
        at += print_escaped(out, at);
        plain = at;
    }
    fwrite(plain, 1, (size_t)(at - plain), out);
    fputc('"', out);
}

void json_print_string(FILE *out, const char *text)
{
    print_string(out, text, STRING_PLAIN);
}

void json_print_ascii_string(FILE *out, const char *text)
{
    print_string(out, text, STRING_ASCII);
}

size_t json_print_ascii_character(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (!is_plain(at, utf8_length(at), STRING_ASCII))
        return print_escaped(out, at);
    fputc(*at, out);
    return 1;
}

/* Print a double from 1 to 2^53. Its fraction has at most 52 bits, so integer arithmetic yields
 * exactly printf's digits, five times as fast. */
static void print_mixed(FILE *out, double value)
{
    char digits[24];
    uint64_t whole = (uint64_t)value, scale = 1;
    uint64_t fraction = (uint64_t)ldexp(value - (double)whole, 52);
    int places = DIGITS;
    for (uint64_t rest = whole; rest > 0; rest /= 10)
        places--;
    for (int i = 0; i < places; i++)
        scale *= 10;
    unsigned __int128 product = (unsigned __int128)fraction * scale;
    uint64_t decimals = (uint64_t)(product >> 52);
    uint64_t rest = (uint64_t)product & ((UINT64_C(1) << 52) - 1), half = UINT64_C(1) << 51;
    decimals += rest > half || (rest == half && (decimals & 1) != 0);
    if (decimals == scale) {
        whole++;
        decimals = 0;
    }
    while (places > 0 && decimals % 10 == 0) {
        decimals /= 10;
        places--;
    }
    char *at = digits + sizeof(digits);
    for (int i = 0; i < places; i++, decimals /= 10)
        *--at = (char)('0' + decimals % 10);
    if (places > 0)
        *--at = '.';
    /* At most 17 digits and a point, so the buffer suffices. */
    do
        *--at = (char)('0' + whole % 10);
    while ((whole /= 10) > 0);
    fwrite(at, 1, (size_t)(digits + sizeof(digits) - at), out);
}

void json_print_unsigned(FILE *out, uint64_t value)
{
    char digits[20], *at = digits + sizeof(digits);
    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    fwrite(at, 1, (size_t)(digits + sizeof(digits) - at), out);
}

void json_print_number(FILE *out, double value)
{
    if (!isfinite(value))
        fputs("null", out);
    else if (value >= 1 && value < 0x1p53)
        print_mixed(out, value);
    else if (value == 0)
        fputc('0', out);
    else
        fprintf(out, "%.*g", DIGITS, value);
}
