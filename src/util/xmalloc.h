/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the tools that people run: it is there, or the process ends with one line on standard
 * error. The recorder, the collector and what they share with the tools return -ENOMEM instead:
 * they have a session to bring to its end.
 *
 * This is not a bound on input. A file that asks for too much is refused before that
 * (memory_bound.h).
 */
#ifndef HEAPPROFD_UTIL_XMALLOC_H
#define HEAPPROFD_UTIL_XMALLOC_H

#include <stddef.h>
#include <stdio.h>

#include "util/array.h"

/* libiberty, which the programs are linked with, has functions of these names. */
#define xmalloc heapprofd_xmalloc
#define xcalloc heapprofd_xcalloc
#define xstrdup heapprofd_xstrdup
#define xasprintf heapprofd_xasprintf

/* The exit code when memory is out: 1, unless the verb has another one for its failures. */
extern int xmalloc_exit_code;
/* If not NULL, called before the line, to give back a terminal or remove what is unfinished. Must
 * not allocate. */
extern void (*xmalloc_before_exit)(void);
/* If not NULL, called after the line. Returns the exit code. */
extern int (*xmalloc_end)(void);

/* Report that memory is out, and exit. `bytes` is what was asked for; 0: unknown. It allocates
 * nothing, and leaves buffered output unwritten. */
_Noreturn void xmalloc_fail(size_t bytes);

void *xmalloc(size_t bytes) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xcalloc(size_t count, size_t item_bytes)
    __attribute__((malloc, returns_nonnull, alloc_size(1, 2)));
void *xreallocarray(void *items, size_t count, size_t item_bytes)
    __attribute__((returns_nonnull, alloc_size(2, 3)));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...)
    __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
FILE *xopen_memstream(char **bytes, size_t *length) __attribute__((returns_nonnull));
/* Close a stream of xopen_memstream(): a write to it fails only for lack of memory. */
void xclose_memstream(FILE *stream);

/* Return the result of a function that returns NULL only for lack of memory. */
static inline void *xmalloc_made(void *made)
{
    if (made == NULL)
        xmalloc_fail(0);
    return made;
}

/* Return an id that is 0 only for lack of memory (intern_bytes()). */
static inline uint64_t xmalloc_id(uint64_t id)
{
    if (id == 0)
        xmalloc_fail(0);
    return id;
}

/* Return the result of a function that returns -ENOMEM for lack of memory, if it is another one. */
static inline int xmalloc_code(int code)
{
    if (code == -ENOMEM)
        xmalloc_fail(0);
    return code;
}

/* As ARRAY_RESERVE and ARRAY_ADD. */
#define XARRAY_RESERVE(items, capacity, used, more)                                                \
    ((void)xmalloc_code(ARRAY_RESERVE(items, capacity, used, more)))
#define XARRAY_ADD(items, count, capacity, item)                                                   \
    ((void)xmalloc_code(ARRAY_ADD(items, count, capacity, item)))

#endif
