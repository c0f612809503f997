/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client as it stands in a process that it was brought into, rather than loaded: no loader, no
 * libc, no thread-local storage; what it needs to know stands in a block that the attacher filled.
 */
#ifndef HEAPPROFD_CLIENT_ATTACHED_ATTACHED_H
#define HEAPPROFD_CLIENT_ATTACHED_ATTACHED_H

#include <stddef.h>

#include "wire/attached_params.h"

/* Found by the attacher by this name; the only symbol that is exported. */
extern struct attached_params heapprofd_attach_params __attribute__((visibility("default")));

/* Keeps account of memory that the client maps, for the attacher to unmap at the end. */
void attached_note_mapped(void *memory, size_t bytes);
void attached_note_unmapped(void *memory);

#endif
