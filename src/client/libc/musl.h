/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What musl's allocator needs of a library that replaces its functions.
 *
 * musl's calloc, memalign, posix_memalign and valloc call malloc and aligned_alloc through the
 * symbol table, so that a program may replace only these two. Behind a hook, such a call would come
 * back to another hook, which would count the allocation again. So the hooks call the functions
 * here instead: they do what musl's do, with the real malloc and aligned_alloc.
 */
#ifndef HEAPPROFD_CLIENT_LIBC_MUSL_H
#define HEAPPROFD_CLIENT_LIBC_MUSL_H

#include "client/client.h"

/* Replace those of the real functions that are musl's. Without musl, do nothing. */
HIDDEN void musl_replace_callers_of_hooks(void);

/* Return whether musl is older than 1.2.2. The realloc of its old allocator calls malloc and free
 * through the symbol table, too, and nothing here replaces it: the profile would be wrong. */
HIDDEN bool musl_is_too_old(void);

#endif
