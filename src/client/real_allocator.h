/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own allocator: for each hooked function, the next definition in link order.
 */
#ifndef HEAPPROFD_CLIENT_REAL_ALLOCATOR_H
#define HEAPPROFD_CLIENT_REAL_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "client/client.h"

/* C++'s allocation functions, in the order of their standard's clauses. */
enum cxx_function {
    CXX_NEW,
    CXX_NEW_ARRAY,
    CXX_NEW_NOTHROW,
    CXX_NEW_ARRAY_NOTHROW,
    CXX_NEW_ALIGNED,
    CXX_NEW_ARRAY_ALIGNED,
    CXX_NEW_ALIGNED_NOTHROW,
    CXX_NEW_ARRAY_ALIGNED_NOTHROW,
    CXX_DELETE,
    CXX_DELETE_ARRAY,
    CXX_DELETE_SIZED,
    CXX_DELETE_ARRAY_SIZED,
    CXX_DELETE_NOTHROW,
    CXX_DELETE_ARRAY_NOTHROW,
    CXX_DELETE_ALIGNED,
    CXX_DELETE_ARRAY_ALIGNED,
    CXX_DELETE_SIZED_ALIGNED,
    CXX_DELETE_ARRAY_SIZED_ALIGNED,
    CXX_DELETE_ALIGNED_NOTHROW,
    CXX_DELETE_ARRAY_ALIGNED_NOTHROW,
    CXX_FUNCTIONS,
};

/* Called with as many integer arguments as the function takes. */
typedef void *(*cxx_allocate)(size_t, size_t, const void *);
typedef void (*cxx_release)(void *, size_t, size_t);

struct real_functions {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*cfree)(void *);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    int (*dlclose)(void *);
    void *(*dlopen)(const char *, int);
    void *(*dlsym)(void *, const char *);
    void *cxx[CXX_FUNCTIONS]; /* NULL: not looked up yet, or not loaded yet */
    /* operator new and malloc belong to one object (jemalloc, tcmalloc, mimalloc):
     * new does not call malloc, so its hook counts the allocation. Otherwise
     * (libstdc++) new calls malloc, whose hook counts it. */
    bool cxx_allocates;
};

extern HIDDEN struct real_functions real;

/* Find all functions, at start-up before there are threads. Idempotent. */
void real_resolve(void) HIDDEN;

/* Return the real function; look it up again if the C++ library was loaded after us.
 * Never NULL. */
void *real_cxx(enum cxx_function function) HIDDEN;

/* Return the next definition of a function whose library may have been loaded after us; NULL: there
 * is none. */
void *real_next(const char *name) HIDDEN;

/* Return the file name of the object with the real malloc. */
const char *real_allocator_name(void) HIDDEN;

#endif
