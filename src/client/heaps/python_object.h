/* SPDX-License-Identifier: Apache-2.0 */
/* The heap python.object of a preloaded client. If no arena can be mapped, malloc serves small
 * requests of pymalloc. This heap counts them, and libc.malloc does not. */
#ifndef HEAPPROFD_CLIENT_HEAPS_PYTHON_OBJECT_H
#define HEAPPROFD_CLIENT_HEAPS_PYTHON_OBJECT_H

#include "client/client.h"
#include "client/heaps/pymalloc_tables.h"

/* Register the heap if the program has opened an interpreter since its start. The thread is not in
 * the client. */
#ifdef HEAPPROFD_NO_HOOKS
static inline void python_object_register_noticed(void) {}
#else
HIDDEN void python_object_register_noticed(void);
#endif

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
