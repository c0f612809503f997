/* SPDX-License-Identifier: Apache-2.0 */
/* What is a character in bytes that come from elsewhere. */
#ifndef HEAPPROFD_UTIL_UTF8_H
#define HEAPPROFD_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the UTF-8 character at `at` has; 0 if it is none. The text ends in a zero byte,
 * which no continuation is, so nothing is read beyond it. */
static inline size_t utf8_length(const unsigned char *at)
{
    size_t length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (*at > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, halves of surrogate pairs, and what is beyond the last character. */
    bool wrong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
                 (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f);
    return wrong ? 0 : length;
}

#endif
