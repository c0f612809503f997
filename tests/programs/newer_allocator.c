/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for allocators that no distribution has yet: malloc, functions with a token (clang's
 * -fsanitize=alloc-token), and those that mimalloc 3 has besides. It only advances one word, and
 * releases nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES (UINT64_C(1) << 30)

static char *arena;
static uint64_t used;

/* Each function begins with it: an entry that is only a call cannot be patched. */
static volatile unsigned long calls;

static void *take(size_t size)
{
    if (arena == NULL)
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t bytes = ((uint64_t)size + 64 + 63) & ~UINT64_C(63);
    if (arena == MAP_FAILED || size > ARENA_BYTES || used + bytes > ARENA_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = arena + used + 64;
    used += bytes;
    *(size_t *)(void *)(block - 64) = size;
    return block;
}

static void *resize(void *old, size_t size)
{
    void *block = take(size);
    size_t had = old != NULL ? *(size_t *)(void *)((char *)old - 64) : 0;
    if (block != NULL)
        memcpy(block, old, had < size ? had : size);
    return block;
}

static int store(void **block, size_t size)
{
    *block = take(size);
    return *block != NULL ? 0 : ENOMEM;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define FUNCTION(name, parameters, expression)                                                     \
    void *name parameters                                                                          \
    {                                                                                              \
        calls += 2;                                                                                \
        return expression;                                                                         \
    }
#define RELEASE(name, parameters)                                                                  \
    void name parameters                                                                           \
    {                                                                                              \
        calls += 2;                                                                                \
    }

#define P void *p
#define A size_t a
#define B size_t b
#define C size_t c

FUNCTION(malloc, (A), take(a))
FUNCTION(calloc, (A, B), take(a *b))
FUNCTION(realloc, (P, A), resize(p, a))
FUNCTION(aligned_alloc, (A, B), take(b))
RELEASE(free, (P))

/* `last`: the token, if it is an argument. */
#define OF_C(prefix, ...)                                                                          \
    FUNCTION(prefix##malloc, (A __VA_ARGS__), take(a))                                             \
    FUNCTION(prefix##calloc, (A, B __VA_ARGS__), take(a *b))                                       \
    FUNCTION(prefix##realloc, (P, A __VA_ARGS__), resize(p, a))                                    \
    FUNCTION(prefix##reallocarray, (P, A, B __VA_ARGS__), resize(p, a *b))                         \
    FUNCTION(prefix##memalign, (A, B __VA_ARGS__), take(b))                                        \
    FUNCTION(prefix##aligned_alloc, (A, B __VA_ARGS__), take(b))                                   \
    FUNCTION(prefix##valloc, (A __VA_ARGS__), take(a))                                             \
    FUNCTION(prefix##pvalloc, (A __VA_ARGS__), take(a))                                            \
    int prefix##posix_memalign(void **p, A, B __VA_ARGS__)                                         \
    {                                                                                              \
        calls += 2;                                                                                \
        return store(p, b);                                                                        \
    }
#define OF_CXX(prefix)                                                                             \
    FUNCTION(prefix##_Znwm, (A), take(a))                                                          \
    FUNCTION(prefix##_Znam, (A), take(a))                                                          \
    FUNCTION(prefix##_ZnwmRKSt9nothrow_t, (A, P), take(a))                                         \
    FUNCTION(prefix##_ZnamRKSt9nothrow_t, (A, P), take(a))                                         \
    FUNCTION(prefix##_ZnwmSt11align_val_t, (A, B), take(a))                                        \
    FUNCTION(prefix##_ZnamSt11align_val_t, (A, B), take(a))                                        \
    FUNCTION(prefix##_ZnwmSt11align_val_tRKSt9nothrow_t, (A, B, P), take(a))                       \
    FUNCTION(prefix##_ZnamSt11align_val_tRKSt9nothrow_t, (A, B, P), take(a))

OF_C(__alloc_token_, , size_t token)
OF_C(__alloc_token_0_)
OF_CXX(__alloc_token_0_)
OF_C(__alloc_token_1_)
OF_CXX(__alloc_token_1_)

FUNCTION(mi_malloc, (A), take(a))
RELEASE(mi_free, (P))
RELEASE(mi_free_small, (P))
RELEASE(mi_ufree, (P, size_t *size))
FUNCTION(mi_umalloc, (A, size_t *size), take(a))
FUNCTION(mi_ucalloc, (A, B, size_t *size), take(a *b))
FUNCTION(mi_urealloc, (P, A, size_t *before, size_t *after), resize(p, a))
FUNCTION(mi_umalloc_aligned, (A, B, size_t *size), take(a))
FUNCTION(mi_uzalloc_aligned, (A, B, size_t *size), take(a))
FUNCTION(mi_umalloc_small, (A, size_t *size), take(a))
FUNCTION(mi_uzalloc_small, (A, size_t *size), take(a))
FUNCTION(mi_heap_zalloc_small, (P, A), take(a))
FUNCTION(mi_theap_malloc, (P, A), take(a))
FUNCTION(mi_theap_zalloc, (P, A), take(a))
FUNCTION(mi_theap_calloc, (P, A, B), take(a *b))
FUNCTION(mi_theap_malloc_small, (P, A), take(a))
FUNCTION(mi_theap_zalloc_small, (P, A), take(a))
FUNCTION(mi_theap_malloc_aligned, (P, A, B), take(a))
FUNCTION(mi_theap_realloc, (void *heap, P, A), resize(p, a))
