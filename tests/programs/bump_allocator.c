/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An async-signal-safe allocator: it only advances one word, and free() keeps the memory. With it
 * as the next malloc in link order, signal handlers may allocate in the middle of an allocation,
 * which the profiler's hooks must support.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES (UINT64_C(8) << 30)

void *malloc(size_t size);
void free(void *block);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);

static char *arena;
static uint64_t used;

static char *find_arena(void)
{
    char *found = __atomic_load_n(&arena, __ATOMIC_ACQUIRE);
    if (found)
        return found;
    char *mapped = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    if (__atomic_compare_exchange_n(&arena, &found, mapped, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mapped;
    munmap(mapped, ARENA_BYTES);
    return found;
}

void *malloc(size_t size)
{
    char *start = find_arena();
    uint64_t bytes = ((uint64_t)size + 16 + 15) & ~UINT64_C(15);
    if (!start || size > ARENA_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    uint64_t at = __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
    if (at + bytes > ARENA_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(void *)(start + at) = size;
    return start + at + 16;
}

void free(void *block)
{
    (void)block;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return malloc(bytes);
}

void *realloc(void *block, size_t size)
{
    void *fresh = malloc(size);
    if (fresh && block) {
        size_t had = *(size_t *)(void *)((char *)block - 16);
        memcpy(fresh, block, had < size ? had : size);
    }
    return fresh;
}
