/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 of RFC 4648, with padding. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_BASE64_H
#define HEAPPROFD_PRODUCTION_SINKS_BASE64_H

#include <stddef.h>

/* Return the length of the base64 of this many bytes. */
static inline size_t base64_length(size_t count)
{
    return (count + 2) / 3 * 4;
}

/* Write the base64 of the bytes, and no zero byte. Return the end of what was written. */
static inline char *base64_write(char *to, const void *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i < 3 ? count - i : 3;
        unsigned bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < left ? from[i + j] : 0);
        for (unsigned j = 0; j < 4; j++)
            *to++ = '=';
        for (unsigned j = 0; j <= left; j++)
            to[(int)j - 4] = digits[bits >> (18 - 6 * j) & 63];
    }
    return to;
}

#endif
