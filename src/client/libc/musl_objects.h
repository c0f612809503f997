/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded object of an address under musl, which has no _dl_find_object.
 *
 * musl never unloads an object, and appends new ones to its list. So the objects that the program
 * began with are read once. Those after them are copied through the kernel each time: a dlopen that
 * fails removes its objects again. Nothing here takes a lock or opens a file.
 */
#ifndef HEAPPROFD_CLIENT_LIBC_MUSL_OBJECTS_H
#define HEAPPROFD_CLIENT_LIBC_MUSL_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

struct musl_object {
    uintptr_t start, end;
    const void *link_map;
};

/* Return whether the C library is musl and its list was read. */
HIDDEN bool musl_objects_are_known(void);

/* Find the object whose segments surround the address. */
HIDDEN bool musl_objects_find(uintptr_t address, struct musl_object *found);

/* Return whether the program began with the object, so that its memory stays. */
HIDDEN bool musl_objects_is_permanent(const void *link_map);

#endif
