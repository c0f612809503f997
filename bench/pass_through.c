/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a preloaded library costs: malloc, free and Python's object allocations go through
 * it, and it does nothing else. What our hooks add is compared with this.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);

/* CPython's PyMemAllocatorEx (3.5 and later), and the numbers of its domains mem and obj. */
struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *memory, size_t size);
    void (*free)(void *context, void *memory);
};
enum { MEM = 1, OBJ = 2 };

static void *pass_malloc(void *context, size_t size)
{
    const struct allocator *real = context;
    return real->malloc(real->context, size);
}

static void *pass_calloc(void *context, size_t count, size_t size)
{
    const struct allocator *real = context;
    return real->calloc(real->context, count, size);
}

static void *pass_realloc(void *context, void *memory, size_t size)
{
    const struct allocator *real = context;
    return real->realloc(real->context, memory, size);
}

static void pass_free(void *context, void *memory)
{
    const struct allocator *real = context;
    real->free(real->context, memory);
}

/* Before the interpreter begins; it keeps allocators that were set so early. */
static void pass_on_objects(void)
{
    void (*get)(int, struct allocator *) = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    void (*set)(int, struct allocator *) = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    static struct allocator real[OBJ + 1];
    for (int domain = MEM; get != NULL && set != NULL && domain <= OBJ; domain++) {
        get(domain, &real[domain]);
        struct allocator passing = {&real[domain], pass_malloc, pass_calloc, pass_realloc, pass_free};
        set(domain, &passing);
    }
}

static void find(void)
{
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

__attribute__((constructor)) static void begin(void)
{
    find();
    pass_on_objects();
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
