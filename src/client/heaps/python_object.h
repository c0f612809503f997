/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap python.object: what CPython's own allocator, pymalloc, serves. That is every request of
 * 1 to 512 bytes in its domains MEM and OBJ. It passes larger ones on to malloc, and its arenas
 * come from mmap: so libc.malloc, libc.mmap and this heap count each byte once. If no arena can be
 * mapped, malloc serves small requests, too. This heap still counts them, and libc.malloc does not.
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_PYTHON_OBJECT_H
#define HEAPPROFD_CLIENT_HEAPS_PYTHON_OBJECT_H

#include "client/arch/registers.h"
#include "client/client.h"
#include "client/heaps/pymalloc_tables.h"

#define HEAPS_PYTHON_NAME "python.object"

/* Register the heap if the program has opened an interpreter since its start. The thread is not in
 * the client. */
#ifdef HEAPPROFD_NO_HOOKS
static inline void python_object_register_noticed(void) {}
#else
HIDDEN void python_object_register_noticed(void);
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

/* Call it when the program maps memory. pymalloc does so before it serves its first request: if the
 * interpreter has reset its tables while it started, they are ours again from then on. */
static inline void python_object_note_mapping(void)
{
    pymalloc_tables_replace_again();
}

/* Call it when that has failed. If pymalloc wanted the memory for an arena, this thread's next
 * small request of malloc is one that the heap counts. */
HIDDEN void python_object_note_failed_mapping(const void *address, size_t length, int fd);

#endif
