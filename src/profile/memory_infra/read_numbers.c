/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the format: JSON numbers, and hexadecimal texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/read_private.h"
#include "util/hex.h"

#define NUMBER_CHARS_MAX 100u

/* At most 19 digits and nothing else. */
static bool read_digits(struct memory_infra_text text, uint64_t *value)
{
    uint64_t result = 0;
    if (text.length == 0 || text.length > 19)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        unsigned digit = (unsigned char)text.at[i] - '0';
        if (digit > 9)
            return false;
        result = result * 10 + digit;
    }
    *value = result;
    return true;
}

bool number_read_double(struct memory_infra_text text, double *value)
{
    char copy[NUMBER_CHARS_MAX + 1];
    uint64_t whole;
    if (text.length <= 15 && read_digits(text, &whole)) {
        *value = (double)whole;
        return true;
    }
    if (text.length == 0 || text.length > NUMBER_CHARS_MAX)
        return false;
    memcpy(copy, text.at, text.length);
    copy[text.length] = '\0';
    char *end;
    *value = strtod(copy, &end);
    return end == copy + text.length && isfinite(*value);
}

/* Read a whole number that is not negative, also 1e3 and 1.0. */
bool number_read_whole(struct memory_infra_text text, uint64_t *value)
{
    double number;
    if (read_digits(text, value))
        return true;
    if (!number_read_double(text, &number) || !(number >= 0) || number >= 0x1p63 ||
        number != floor(number))
        return false;
    *value = (uint64_t)number;
    return true;
}

/* Read 1 to 16 hexadecimal digits from `at` on, and nothing else. */
static bool read_hex_digits(struct memory_infra_text text, size_t at, uint64_t *value)
{
    uint64_t result = 0;
    if (text.length <= at || text.length - at > 16)
        return false;
    for (; at < text.length; at++) {
        unsigned digit = hex_digit(text.at[at]);
        if (digit > 15)
            return false;
        result = result << 4 | digit;
    }
    *value = result;
    return true;
}

static bool read_hex(struct memory_infra_text text, uint64_t *value)
{
    bool prefixed = text.length > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x';
    return read_hex_digits(text, prefixed ? 2 : 0, value);
}

bool memory_infra_read_pc(struct memory_infra_text name, uint64_t *address)
{
    return name.length > 3 && memcmp(name.at, "pc:", 3) == 0 && read_hex_digits(name, 3, address);
}

/* Read hexadecimal text as in the format; a JSON number is taken unchanged. */
bool number_read_hex(const struct value *value, uint64_t *number)
{
    return value->kind == VALUE_TEXT     ? read_hex(value->text, number)
           : value->kind == VALUE_NUMBER ? number_read_whole(value->text, number)
                                         : false;
}
