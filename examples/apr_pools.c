/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Show the pools of the Apache Portable Runtime in the profile, without rebuilding anything: a
 * library to preload into programs that use libapr-1.so.0 (Subversion's, the Apache server).
 *
 * It replaces apr_palloc() and apr_pcalloc(). Their allocations are the heap "apr.pools", and live
 * until their pool is cleared or destroyed: a cleanup of the pool reports that, and is registered
 * only for sampled allocations. Allocations inside APR's own functions (apr_pstrdup and others) are
 * seen if APR was linked so that its internal calls can be replaced; Debian's APR was.
 */
#include <heap_profile.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As in apr_pools.h, so that the header is not needed. */
typedef struct apr_pool_t apr_pool_t;
typedef int cleanup_fn(void *);
extern void apr_pool_cleanup_register(apr_pool_t *pool, const void *data, cleanup_fn *plain,
                                      cleanup_fn *child) __attribute__((weak));
extern int apr_pool_cleanup_null(void *data) __attribute__((weak));

void *apr_palloc(apr_pool_t *pool, size_t size);
void *apr_pcalloc(apr_pool_t *pool, size_t size);

static uint32_t heap;
static void *(*real_palloc)(apr_pool_t *, size_t);
static __thread bool is_inside; /* registering a cleanup allocates from the pool */

__attribute__((constructor)) static void describe(void)
{
    heap = AHeapProfile_registerHeap(AHeapInfo_create("apr.pools"));
}

static int report_end(void *memory)
{
    AHeapProfile_reportFree(heap, (uintptr_t)memory);
    return 0;
}

void *apr_palloc(apr_pool_t *pool, size_t size)
{
    if (real_palloc == NULL)
        *(void **)&real_palloc = dlsym(RTLD_NEXT, "apr_palloc");
    void *memory = real_palloc(pool, size);
    if (memory == NULL || is_inside ||
        !AHeapProfile_reportAllocation(heap, (uintptr_t)memory, size))
        return memory;
    is_inside = true;
    apr_pool_cleanup_register(pool, memory, report_end, apr_pool_cleanup_null);
    is_inside = false;
    return memory;
}

void *apr_pcalloc(apr_pool_t *pool, size_t size)
{
    void *memory = apr_palloc(pool, size);
    return memory != NULL ? memset(memory, 0, size) : NULL;
}
