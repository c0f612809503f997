/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's own functions besides malloc. Obeys commands from standard input, each answered "ok":
 *
 *   malloc COUNT BYTES    allocate COUNT blocks and keep them
 *   mallocx COUNT BYTES   the same through mallocx
 *   rallocx BYTES         resize all kept blocks
 *   dallocx, sdallocx     free all kept blocks by this function
 */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

enum { HELD_MAX = 100000 };

static void *held[HELD_MAX];
static size_t held_count, held_bytes;

static CALLSITE void *malloc_block(size_t bytes)
{
    return kept(malloc(bytes));
}

static CALLSITE void *mallocx_block(size_t bytes)
{
    return kept(mallocx(bytes, 0));
}

static CALLSITE void *rallocx_block(void *memory, size_t bytes)
{
    return kept(rallocx(memory, bytes, 0));
}

static void hold(void *(*allocate)(size_t), size_t count, size_t bytes)
{
    held_bytes = bytes;
    for (size_t i = 0; i < count && held_count < HELD_MAX; i++)
        held[held_count++] = allocate(bytes);
}

static void resize(size_t bytes)
{
    held_bytes = bytes;
    for (size_t i = 0; i < held_count; i++)
        held[i] = rallocx_block(held[i], bytes);
}

static void drop(int with_size)
{
    while (held_count > 0) {
        void *memory = held[--held_count];
        if (with_size)
            sdallocx(memory, held_bytes, 0);
        else
            dallocx(memory, 0);
    }
}

/* Read single bytes: stdio would allocate. */
static int read_line(char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size && read(STDIN_FILENO, line + used, 1) == 1 && line[used] != '\n')
        used++;
    line[used] = 0;
    return used > 0;
}

int main(void)
{
    char line[128], verb[16];
    unsigned long first, second;
    while (read_line(line, sizeof(line))) {
        first = second = 0;
        if (sscanf(line, "%15s %lu %lu", verb, &first, &second) < 1)
            continue;
        if (strcmp(verb, "malloc") == 0)
            hold(malloc_block, first, second);
        else if (strcmp(verb, "mallocx") == 0)
            hold(mallocx_block, first, second);
        else if (strcmp(verb, "rallocx") == 0)
            resize(first);
        else
            drop(strcmp(verb, "sdallocx") == 0);
        if (write(STDOUT_FILENO, "ok\n", 3) != 3)
            return 1;
    }
    return 0;
}
