/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call each function of an allocator that is under names of its own (renamed_allocator.c), and
 * print what a profile at interval 1 must have:
 *
 *   truth: FUNCTION BYTES CALLS LIVE_BYTES
 *
 * for each, and "live BYTES", the library's own figure. The first argument is the name by which the
 * library is opened, if the program is not linked to it. A second one is a number of further calls;
 * "wait": print "ready" and wait for a line before, and another one after the calls.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "truth.h"

#ifdef LINKED
#define FUNCTION(result, name, ...)                                                                \
    result engine_##name(__VA_ARGS__);                                                             \
    static result (*const name##_at)(__VA_ARGS__) = engine_##name;
#else
#define FUNCTION(result, name, ...) static result (*name##_at)(__VA_ARGS__);
#endif

#define FUNCTIONS(F)                                                                               \
    F(void *, malloc, size_t)                                                                      \
    F(void *, calloc, size_t, size_t)                                                              \
    F(void *, realloc, void *, size_t)                                                             \
    F(int, posix_memalign, void **, size_t, size_t)                                                \
    F(void *, aligned_alloc, size_t, size_t)                                                       \
    F(void, free, void *)                                                                          \
    F(void, free_sized, void *, size_t)                                                            \
    F(void *, mallocx, size_t, int)                                                                \
    F(void *, rallocx, void *, size_t, int)                                                        \
    F(size_t, xallocx, void *, size_t, size_t, int)                                                \
    F(void, dallocx, void *, int)                                                                  \
    F(void, sdallocx, void *, size_t, int)                                                         \
    F(unsigned long, stats_live, void)

FUNCTIONS(FUNCTION)

static unsigned long base_calls, base_live;

static void *stored(void)
{
    void *block = NULL;
    require(posix_memalign_at(&block, 64, 50) == 0);
    return block;
}

static CALLSITE void *base_block(void)
{
    base_calls++;
    base_live++;
    return kept(malloc_at(100));
}

/* Twice: one block stays, the other is released. */
#define ALLOCATION(name, size, release, expression)                                                \
    static CALLSITE void *call_##name(void *block)                                                 \
    {                                                                                              \
        (void)block;                                                                               \
        return kept(expression);                                                                   \
    }                                                                                              \
    static void make_##name(bool needs_block)                                                      \
    {                                                                                              \
        for (int i = 0; i < 2; i++) {                                                              \
            void *block = call_##name(needs_block ? base_block() : NULL);                          \
            require(block != NULL);                                                                \
            base_live -= needs_block;                                                              \
            if (i == 1)                                                                            \
                release;                                                                           \
        }                                                                                          \
        printf("truth: call_" #name " %u 2 %u\n", 2 * (size), size);                               \
    }

ALLOCATION(malloc, 208, free_at(block), malloc_at(208))
ALLOCATION(calloc, 300, free_sized_at(block, 300), calloc_at(3, 100))
ALLOCATION(realloc, 1500, free_at(block), realloc_at(block, 1500))
ALLOCATION(realloc_null, 15, free_at(block), realloc_at(NULL, 15))
ALLOCATION(posix_memalign, 50, free_at(block), stored())
ALLOCATION(aligned_alloc, 64, free_at(block), aligned_alloc_at(64, 64))
ALLOCATION(mallocx, 4096, dallocx_at(block, 0), mallocx_at(4096, 0))
ALLOCATION(rallocx, 777, sdallocx_at(block, 777, 0), rallocx_at(block, 777, 0))
ALLOCATION(xallocx, 120, free_at(block), xallocx_at(block, 110, 10, 0) == 120 ? block : NULL)

static void open_library(const char *name)
{
#ifdef LINKED
    (void)name;
#else
    void *library = dlopen(name, RTLD_NOW);
    require(library != NULL);
#define LOOK_UP(result, function, ...)                                                             \
    function##_at = (__typeof__(function##_at))dlsym(library, "engine_" #function);                \
    require(function##_at != NULL);
    FUNCTIONS(LOOK_UP)
#endif
}

static CALLSITE void make_many(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        char *block = kept(mallocx_at(16 + i % 500, 0));
        if (i % 3 == 0)
            sdallocx_at(block, 16 + i % 500, 0);
    }
}

int main(int argc, char **argv)
{
    static volatile size_t huge = 1ul << 60;
    open_library(argc > 1 ? argv[1] : NULL);
    bool waits = argc > 2 && strcmp(argv[2], "wait") == 0;
    if (waits) {
        puts("ready");
        fflush(stdout);
        getchar();
    } else if (argc > 2)
        make_many(strtoul(argv[2], NULL, 10));
    make_malloc(false);
    make_calloc(false);
    make_realloc(true);
    make_realloc_null(false);
    make_posix_memalign(false);
    make_aligned_alloc(false);
    make_mallocx(false);
    make_rallocx(true);
    make_xallocx(true);
    require(rallocx_at(base_block(), huge, 0) == NULL);
    require(xallocx_at(base_block(), 2000, 0, 0) == 100);
    free_at(NULL);
    printf("truth: base_block %lu %lu %lu\n", 100 * base_calls, base_calls, 100 * base_live);
    printf("live %lu\n", stats_live_at());
    fflush(stdout);
    if (waits)
        getchar();
    return 0;
}
