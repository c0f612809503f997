/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena that shows in the profile: its allocations are the heap "example.arena", with the stacks
 * that made them, and live until the arena is emptied.
 *
 * Emptying needs no work for each allocation: AHeapProfile_reportAllocation returns whether an
 * allocation was sampled, and only sampled ones must be reported as freed. The arena keeps a list
 * of them in its own memory.
 *
 *   arena REQUESTS    serve this number of requests from one arena
 */
#include <heap_profile.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct block {
    struct block *next;
    _Alignas(ALIGNMENT) char memory[BLOCK_BYTES];
};

/* A sampled allocation. The list is in the arena itself. */
struct sampled {
    struct sampled *next;
    void *memory;
};

struct arena {
    struct block *blocks; /* the first block is in use */
    size_t used;
    struct sampled *sampled;
};

static uint32_t heap;

static void *take(struct arena *arena, size_t size)
{
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size > BLOCK_BYTES)
        return NULL;
    if (arena->blocks == NULL || size > BLOCK_BYTES - arena->used) {
        struct block *block = malloc(sizeof(*block));
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
    }
    void *memory = arena->blocks->memory + arena->used;
    arena->used += size;
    return memory;
}

static void *arena_allocate(struct arena *arena, size_t size, const char *type)
{
    void *memory = take(arena, size);
    if (memory == NULL || !HeapProfile_reportAllocationOfType(heap, (uintptr_t)memory, size, type))
        return memory;
    struct sampled *sampled = take(arena, sizeof(*sampled));
    if (sampled == NULL) {
        AHeapProfile_reportFree(heap, (uintptr_t)memory);
        return memory;
    }
    *sampled = (struct sampled){arena->sampled, memory};
    arena->sampled = sampled;
    return memory;
}

static void arena_empty(struct arena *arena)
{
    for (struct sampled *each = arena->sampled; each != NULL; each = each->next)
        AHeapProfile_reportFree(heap, (uintptr_t)each->memory);
    while (arena->blocks != NULL) {
        struct block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    *arena = (struct arena){0};
}

/* --- a program that uses it --- */

struct header {
    const char *name, *value;
    struct header *next;
};

static const char *copy_text(struct arena *arena, const char *text)
{
    char *copy = arena_allocate(arena, strlen(text) + 1, "text");
    return copy != NULL ? strcpy(copy, text) : "";
}

static struct header *parse_headers(struct arena *arena, int count)
{
    HEAP_PROFILE_SCOPE("parse headers");
    struct header *first = NULL;
    for (int i = 0; i < count; i++) {
        struct header *header = arena_allocate(arena, sizeof(*header), "header");
        if (header == NULL)
            break;
        *header = (struct header){copy_text(arena, "name"), copy_text(arena, "value"), first};
        first = header;
    }
    return first;
}

static void *make_reply(struct arena *arena, size_t size)
{
    HEAP_PROFILE_SCOPE("make reply");
    return arena_allocate(arena, size, "reply");
}

int main(int argc, char **argv)
{
    int requests = argc > 1 ? atoi(argv[1]) : 1000, served = 0;
    heap = AHeapProfile_registerHeap(AHeapInfo_create("example.arena"));
    struct arena arena = {0};
    for (int i = 0; i < requests; i++) {
        arena_empty(&arena);
        served += parse_headers(&arena, 20) != NULL && make_reply(&arena, 4000) != NULL;
    }
    printf("%d requests served\n", served);
    return 0; /* the last request's memory is live */
}
