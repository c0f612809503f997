/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, read and written. */
#ifndef HEAPPROFD_UTIL_HEX_H
#define HEAPPROFD_UTIL_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Return the value of a digit, upper or lower case; 16: no digit. */
static inline unsigned hex_digit(char c)
{
    unsigned digit = (unsigned char)c - '0';
    if (digit <= 9)
        return digit;
    digit = ((unsigned char)c | 0x20u) - 'a';
    return digit <= 5 ? digit + 10 : 16;
}

/* Read pairs of digits until something else comes, or `size` bytes are full. Return the number of
 * bytes. */
static inline size_t hex_read(const char *text, uint8_t *bytes, size_t size)
{
    size_t count = 0;
    for (; count < size; count++) {
        unsigned high = hex_digit(text[2 * count]);
        unsigned low = high > 15 ? 16 : hex_digit(text[2 * count + 1]);
        if (low > 15)
            break;
        bytes[count] = (uint8_t)(high << 4 | low);
    }
    return count;
}

/* Write two lower-case digits for each byte, and a zero byte: `text` has room for 2 * count + 1. */
static inline void hex_write(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++) {
        *text++ = "0123456789abcdef"[bytes[i] >> 4];
        *text++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *text = '\0';
}

#endif
