/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the calls of pymalloc, CPython's own allocator, for the heap python.object. That is every
 * request of 1 to 512 bytes in its domains MEM and OBJ. It passes larger ones on to malloc, and its
 * arenas come from mmap: so libc.malloc, libc.mmap and this heap count each byte once. If no arena
 * can be mapped, malloc serves small requests, too.
 *
 * A preloaded client (python_object.h) and an attached one (attached/python.c) have these functions
 * called in place of pymalloc's.
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_PYTHON_COUNT_H
#define HEAPPROFD_CLIENT_HEAPS_PYTHON_COUNT_H

#include "client/arch/registers.h"
#include "client/client.h"
#include "client/sample/live_set.h"
#ifdef HEAPPROFD_ATTACHED
#include "client/attached.h"
#endif

#define HEAPS_PYTHON_NAME "python.object"

/* A table without its context, as in struct PyMemAllocatorEx. */
struct pymalloc_functions {
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *memory, size_t size);
    void (*free)(void *context, void *memory);
};

struct python_count {
    struct pymalloc_functions pymalloc; /* its own; unused by an attached client */
    const struct live_set *live;        /* of the heap */
    uint32_t heap;                      /* its id */
};

extern HIDDEN struct python_count python_count;

/* Call these in place of pymalloc's. */
HIDDEN void *python_count_malloc(void *context, size_t size);
HIDDEN void *python_count_calloc(void *context, size_t number, size_t size);
HIDDEN void *python_count_realloc(void *context, void *memory, size_t size);
HIDDEN void python_count_free(void *context, void *memory);

/* Called by these when no session profiles the heap. */
HIDDEN void python_count_unprofiled(void);

/* Return pymalloc's own functions. */
#ifdef HEAPPROFD_ATTACHED
static inline const struct pymalloc_functions *python_count_own(void)
{
    return (const struct pymalloc_functions *)heapprofd_attach_params.python.functions;
}
#else
static inline const struct pymalloc_functions *python_count_own(void)
{
    return &python_count.pymalloc;
}
#endif

/* As in hooks/hook_entries.h. */
HIDDEN void *entry_python_malloc(void *context, size_t size);
HIDDEN void *entry_python_calloc(void *context, size_t number, size_t size);
HIDDEN void *entry_python_allocated(void *memory, size_t size);
HIDDEN void *entry_python_realloc(void *context, void *memory, size_t size);
HIDDEN void *slow_python_malloc(void *context, size_t size, size_t unused,
                                const struct unwind_registers *caller);
HIDDEN void *slow_python_calloc(void *context, size_t number, size_t size,
                                const struct unwind_registers *caller);
HIDDEN void *slow_python_allocated(void *memory, size_t size, size_t unused,
                                   const struct unwind_registers *caller);
HIDDEN void *slow_python_realloc(void *context, void *memory, size_t size,
                                 const struct unwind_registers *caller);

#endif
