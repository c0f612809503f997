/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded object of an address in the loader's list, where _dl_find_object is not there to
 * ask: musl, and glibc before 2.35. Nothing here takes a lock or opens a file.
 *
 * The objects that the program began with are read once. glibc lists them first, its loader among
 * them, and never unloads those up to its loader: only these are read. musl never unloads an object
 * and appends new ones to its list. These later ones are copied through the kernel each time: a
 * dlopen that fails removes its objects again.
 */
#ifndef HEAPPROFD_CLIENT_LIBC_FIRST_OBJECTS_H
#define HEAPPROFD_CLIENT_LIBC_FIRST_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

struct listed_object {
    uintptr_t start, end;
    /* The widest hole between its segments, where other memory may be. The kernel leaves one in the
     * loader. */
    uintptr_t hole_start, hole_end;
    const void *link_map;
};

/* Find the object that the program began with whose segments surround the address. */
HIDDEN bool first_objects_find(uintptr_t address, struct listed_object *found);

/* Return whether the program began with the object, so that its memory stays. */
HIDDEN bool first_objects_has(const void *link_map);

/* Return whether the C library is musl and its list was read. */
HIDDEN bool later_objects_are_known(void);

/* Find the object of musl's list that came later whose segments surround the address. */
HIDDEN bool later_objects_find(uintptr_t address, struct listed_object *found);

#endif
