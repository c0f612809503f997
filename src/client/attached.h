/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client in a running process that it was attached to. It has no loader, no libc and no
 * thread-local storage. The attacher fills a block with everything that it needs to know.
 */
#ifndef HEAPPROFD_CLIENT_ATTACHED_H
#define HEAPPROFD_CLIENT_ATTACHED_H

#include <stddef.h>

#include "wire/attached_params.h"

/* The only exported symbol: the attacher finds the block by this name. */
extern struct attached_params heapprofd_attach_params __attribute__((visibility("default")));

/* Note memory that the client maps, so that the attacher can unmap it at the end. */
void attached_note_mapped(void *memory, size_t bytes);
void attached_note_unmapped(void *memory);

#endif
