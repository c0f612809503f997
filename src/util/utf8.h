/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and counts the characters in untrusted bytes. */
#ifndef HEAPPROFD_UTIL_UTF8_H
#define HEAPPROFD_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Return whether a byte continues a character. */
static inline bool utf8_continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Return the number of characters of a text, about the columns that it takes on a terminal. */
static inline size_t utf8_count(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += !utf8_continues(*text);
    return count;
}

/* Return the length in bytes of the UTF-8 character at `at`; 0 if the bytes are not UTF-8. The text
 * ends in a zero byte, which is not a continuation byte, so nothing is read beyond it. */
static inline size_t utf8_length(const unsigned char *at)
{
    size_t length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (*at > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (!utf8_continues((char)at[i]))
            return 0;
    /* Overlong forms, surrogates, and codes beyond the last character. */
    bool wrong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
                 (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f);
    return wrong ? 0 : length;
}

#endif
