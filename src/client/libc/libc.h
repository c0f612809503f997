/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library that the client finds in the process: glibc or musl.
 *
 * One preload library serves both, because LD_PRELOAD is passed on to programs of either kind. So
 * it is linked to no library at all. It refers weakly, without a version, to the few symbols below,
 * and the linker rejects any other. glibc and musl both have the functions. The objects belong to
 * one of them and are NULL in the other.
 */
#ifndef HEAPPROFD_CLIENT_LIBC_LIBC_H
#define HEAPPROFD_CLIENT_LIBC_LIBC_H

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "client/client.h"

/* A static program needs strong references: only those make the linker include a function. */
#ifndef HEAPPROFD_STATIC
#pragma weak __errno_location
#pragma weak abort
#pragma weak getauxval
#endif

/* Return the first loaded object. The list is in link order and changes while other threads load
 * libraries. NULL: there is no loader. */
HIDDEN const struct link_map *libc_objects(void);

/* Return the environment that the program was started with; NULL: unknown. */
HIDDEN const char *const *libc_environment(void);

/* Return the environment that it has now; NULL: unknown. */
HIDDEN const char *const *libc_present_environment(void);

/* Return an address in the last page of the initial thread's stack; 0: unknown. */
HIDDEN uintptr_t libc_stack_end(void);

HIDDEN bool libc_is_musl(void);

/* Return whether the C library's own constructor has run, or need not. */
HIDDEN bool libc_is_initialized(void);

#endif
