/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator in a library, under names of its own: jemalloc's functions with the prefix RENAMED_.
 * Blocks of one size class are reused. Some functions end in others, which must not count twice.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef RENAMED
#define RENAMED(name) engine_##name
#endif

#define ARENA_BYTES (UINT64_C(1) << 30)
#define CLASSES 48

void *RENAMED(malloc)(size_t size);
void *RENAMED(calloc)(size_t count, size_t size);
void *RENAMED(realloc)(void *block, size_t size);
int RENAMED(posix_memalign)(void **block, size_t alignment, size_t size);
void *RENAMED(aligned_alloc)(size_t alignment, size_t size);
void RENAMED(free)(void *block);
void RENAMED(free_sized)(void *block, size_t size);
void *RENAMED(mallocx)(size_t size, int flags);
void *RENAMED(rallocx)(void *block, size_t size, int flags);
size_t RENAMED(xallocx)(void *block, size_t size, size_t extra, int flags);
void RENAMED(dallocx)(void *block, int flags);
void RENAMED(sdallocx)(void *block, size_t size, int flags);
unsigned long RENAMED(stats_live)(void);

struct header {
    size_t size;
    struct header *next;
    size_t pad[6];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct header *free_blocks[CLASSES];
static char *arena;
static uint64_t used;
static unsigned long live;

/* A function that only calls another one begins with it, because an entry that is only a call
 * cannot be patched. */
static volatile unsigned long calls;

static unsigned class_of(size_t size)
{
    unsigned class = 6;
    while ((size_t)1 << class < size)
        class ++;
    return class;
}

/* All blocks are aligned to 64. */
static struct header *take(size_t size)
{
    unsigned class = class_of(size);
    if (size > ARENA_BYTES / 4)
        return NULL;
    struct header *header = free_blocks[class];
    if (header != NULL) {
        free_blocks[class] = header->next;
        return header;
    }
    if (arena == NULL)
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t bytes = ((size_t)1 << class) + sizeof(*header);
    if (arena == MAP_FAILED || used + bytes > ARENA_BYTES)
        return NULL;
    header = (void *)(arena + used);
    used += bytes;
    return header;
}

void *RENAMED(malloc)(size_t size)
{
    pthread_mutex_lock(&mutex);
    struct header *header = take(size);
    if (header != NULL) {
        header->size = size;
        live += size;
    }
    pthread_mutex_unlock(&mutex);
    if (header == NULL)
        errno = ENOMEM;
    return header != NULL ? header + 1 : NULL;
}

void RENAMED(free)(void *block)
{
    if (block == NULL)
        return;
    struct header *header = (struct header *)block - 1;
    pthread_mutex_lock(&mutex);
    live -= header->size;
    header->next = free_blocks[class_of(header->size)];
    free_blocks[class_of(header->size)] = header;
    pthread_mutex_unlock(&mutex);
}

void *RENAMED(calloc)(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *block = RENAMED(malloc)(bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

void *RENAMED(realloc)(void *block, size_t size)
{
    void *moved = RENAMED(malloc)(size);
    if (moved == NULL || block == NULL)
        return moved;
    struct header *header = (struct header *)block - 1;
    memcpy(moved, block, header->size < size ? header->size : size);
    RENAMED(free)(block);
    return moved;
}

int RENAMED(posix_memalign)(void **block, size_t alignment, size_t size)
{
    if (alignment > 64)
        return EINVAL;
    *block = RENAMED(malloc)(size);
    return *block != NULL ? 0 : ENOMEM;
}

void *RENAMED(aligned_alloc)(size_t alignment, size_t size)
{
    return alignment <= 64 ? RENAMED(malloc)(size) : NULL;
}

void RENAMED(free_sized)(void *block, size_t size)
{
    calls += 2;
    (void)size;
    RENAMED(free)(block);
}

void *RENAMED(mallocx)(size_t size, int flags)
{
    calls += 2;
    (void)flags;
    return RENAMED(malloc)(size);
}

void *RENAMED(rallocx)(void *block, size_t size, int flags)
{
    calls += 2;
    (void)flags;
    return RENAMED(realloc)(block, size);
}

size_t RENAMED(xallocx)(void *block, size_t size, size_t extra, int flags)
{
    (void)flags;
    struct header *header = (struct header *)block - 1;
    size_t room = (size_t)1 << class_of(header->size);
    if (size + extra <= room) {
        live += size + extra - header->size;
        header->size = size + extra;
    }
    return header->size;
}

void RENAMED(dallocx)(void *block, int flags)
{
    calls += 2;
    (void)flags;
    RENAMED(free)(block);
}

void RENAMED(sdallocx)(void *block, size_t size, int flags)
{
    calls += 2;
    (void)size;
    (void)flags;
    RENAMED(free)(block);
}

unsigned long RENAMED(stats_live)(void)
{
    return live;
}
