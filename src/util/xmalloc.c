/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the C library for memory, and ends the process if it has none. */
#include "util/xmalloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/write_all.h"

int xmalloc_exit_code = EXIT_FAILURE;
void (*xmalloc_before_exit)(void);
int (*xmalloc_end)(void);

void xmalloc_fail(size_t bytes)
{
    char line[128], amount[48] = "";
    if (xmalloc_before_exit != NULL)
        xmalloc_before_exit();
    if (bytes > 0)
        snprintf(amount, sizeof(amount), " (%zu bytes)", bytes);
    int length = snprintf(line, sizeof(line), "%.40s: out of memory%s\n",
                          program_invocation_short_name, amount);
    write_all(STDERR_FILENO, line, (size_t)length);
    /* exit() would write buffered output: half of a report, or with streams that allocate. */
    _exit(xmalloc_end != NULL ? xmalloc_end() : xmalloc_exit_code);
}

void *xmalloc(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL && bytes > 0)
        xmalloc_fail(bytes);
    return memory;
}

/* Return the product, or SIZE_MAX if it is larger. */
static size_t bytes_of(size_t count, size_t item_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow(count, item_bytes, &bytes) ? SIZE_MAX : bytes;
}

void *xcalloc(size_t count, size_t item_bytes)
{
    void *memory = calloc(count, item_bytes);
    if (memory == NULL)
        xmalloc_fail(bytes_of(count, item_bytes));
    return memory;
}

void *xreallocarray(void *items, size_t count, size_t item_bytes)
{
    void *grown = reallocarray(items, count, item_bytes);
    if (grown == NULL)
        xmalloc_fail(bytes_of(count, item_bytes));
    return grown;
}

char *xstrdup(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        xmalloc_fail(strlen(text) + 1);
    return copy;
}

char *xasprintf(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        xmalloc_fail(0);
    return text;
}

FILE *xopen_memstream(char **bytes, size_t *length)
{
    return xmalloc_made(open_memstream(bytes, length));
}

void xclose_memstream(FILE *stream)
{
    int failed = ferror(stream);
    if (fclose(stream) != 0 || failed != 0)
        xmalloc_fail(0);
}
