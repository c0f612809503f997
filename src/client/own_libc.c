/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's own memory and string functions. They are hidden: nobody else calls them.
 *
 * libc's functions cannot be used, because they can be interposed. A sanitizer's interceptors jump
 * through pointers that are not set yet at the first allocation. A program's own memcpy may
 * allocate. An indirect function may be called before it is resolved. So the client's calls, and
 * those that the compiler inserts, stay in its own object.
 *
 * Copies are records and stacks of ten to some thousand bytes.
 */
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

/* Keep gcc from replacing the loop in memcpy with a call of memcpy. */
#ifndef __clang__
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

/* Used: the compiler may call these after the linker has optimized the whole client, and has
 * dropped what no source calls. */
#define FOR_COMPILER HIDDEN __attribute__((used))

FOR_COMPILER void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
FOR_COMPILER void *memmove(void *to, const void *from, size_t bytes);
FOR_COMPILER void *memset(void *to, int value, size_t bytes);
FOR_COMPILER int memcmp(const void *a, const void *b, size_t bytes);
HIDDEN size_t strlen(const char *text);
HIDDEN size_t strnlen(const char *text, size_t most);
HIDDEN int strncmp(const char *a, const char *b, size_t most);
HIDDEN char *strcpy(char *restrict to, const char *restrict from);

typedef uint64_t __attribute__((may_alias, aligned(1))) word;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    for (; bytes >= sizeof(word); bytes -= sizeof(word)) {
        *(word *)target = *(const word *)source;
        target += sizeof(word);
        source += sizeof(word);
    }
    while (bytes-- > 0)
        *target++ = *source++;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    if ((uintptr_t)to <= (uintptr_t)from || (uintptr_t)to >= (uintptr_t)from + bytes) {
        for (size_t i = 0; i < bytes; i++)
            target[i] = source[i];
    } else {
        while (bytes-- > 0)
            target[bytes] = source[bytes];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    unsigned char *target = to;
    const word all = UINT64_C(0x0101010101010101) * (unsigned char)value;
    for (; bytes >= sizeof(word); bytes -= sizeof(word)) {
        *(word *)target = all;
        target += sizeof(word);
    }
    while (bytes-- > 0)
        *target++ = (unsigned char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < bytes; i++) {
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

size_t strnlen(const char *text, size_t most)
{
    size_t length = 0;
    while (length < most && text[length] != 0)
        length++;
    return length;
}

size_t strlen(const char *text)
{
    return strnlen(text, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t most)
{
    for (size_t i = 0; i < most; i++) {
        unsigned char left = (unsigned char)a[i], right = (unsigned char)b[i];
        if (left != right)
            return left < right ? -1 : 1;
        if (left == 0)
            break;
    }
    return 0;
}

char *strcpy(char *restrict to, const char *restrict from)
{
    memcpy(to, from, strlen(from) + 1);
    return to;
}
