/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a preloaded library costs: malloc and free go through it, and it does nothing
 * else. What our hooks add is compared with this.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);

__attribute__((constructor)) static void find(void)
{
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t size)
{
    if (__builtin_expect(real_malloc == NULL, 0))
        find();
    return real_malloc(size);
}

void free(void *memory)
{
    if (__builtin_expect(real_free == NULL, 0))
        find();
    real_free(memory);
}
