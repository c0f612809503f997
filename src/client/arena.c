/* SPDX-License-Identifier: Apache-2.0 */
/* Map arenas, move between them, and keep the last two mapped. */
#include "client/arena.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/system.h"

/* The one in use and the two before it. */
#define ARENAS 3u

static struct {
    uintptr_t base;
    size_t bytes;
} arenas[ARENAS];
static uint32_t current; /* set after its entry is complete: another thread may fork */

static bool failed(long mapped)
{
    return mapped < 0 && mapped > -4096;
}

/* Give an arena's memory back. Its counting area stays mapped, but nobody reads it. */
static void retire(uint32_t index)
{
    uintptr_t base = arenas[index].base;
    size_t bytes = arenas[index].bytes;
    if (base == 0)
        return;
    system_call(CALL_MAP_OVER_RING, base, RING_DATA_OFFSET);
    system_call(CALL_KEEP_FROM_CORE, base, RING_DATA_OFFSET);
    arenas[index].bytes = RING_DATA_OFFSET;
    if (bytes > RING_DATA_OFFSET)
        system_call(CALL_UNMAP, base + RING_DATA_OFFSET, bytes - RING_DATA_OFFSET);
}

static void move_to(uintptr_t base, uint64_t data_bytes)
{
    uint32_t last = current, next = (last + 1) % ARENAS;
    if (arenas[next].base != 0)
        system_call(CALL_UNMAP, arenas[next].base, arenas[next].bytes);
    arenas[next].base = base;
    arenas[next].bytes = RING_DATA_OFFSET + 2 * data_bytes;
    client.control = (void *)base;
    client.threads = (void *)(base + RING_THREADS_OFFSET);
    client.heap_lines = (void *)(base + RING_HEAP_LINES_OFFSET);
    client.pending = (void *)(base + RING_PENDING_OFFSET);
    client.wanted_heaps = (const void *)(base + RING_HEAPS_OFFSET);
    client.data = data_bytes > 0 ? (void *)(base + RING_DATA_OFFSET) : NULL;
    client.data_mask = data_bytes > 0 ? data_bytes - 1 : 0;
    store_release(&current, next);
    retire(last);
}

int arena_enter_ring(int fd, uint64_t data_bytes)
{
    size_t total = RING_DATA_OFFSET + 2 * data_bytes;
    long base = system_call(CALL_MAP_UNREADABLE, total);
    if (failed(base))
        return (int)base;
    /* Map control and threads once, and the data twice in a row. */
    long first = system_call(CALL_MAP_RING, base, RING_DATA_OFFSET + data_bytes, fd, 0);
    long second = system_call(CALL_MAP_RING, base + (long)(RING_DATA_OFFSET + data_bytes),
                              data_bytes, fd, RING_DATA_OFFSET);
    const struct ring_control *control = (void *)base;
    if (first != base || failed(second) || control->magic != RING_MAGIC ||
        control->version != RING_VERSION || control->data_bytes != data_bytes) {
        system_call(CALL_UNMAP, base, total);
        return -ENOMEM;
    }
    /* A core file would contain it twice, including pages that were never written. */
    system_call(CALL_KEEP_FROM_CORE, base, total);
    move_to((uintptr_t)base, data_bytes);
    return 0;
}

int arena_enter_dormant(void)
{
    void *arena = system_map_wiped(RING_DATA_OFFSET);
    if (arena == NULL)
        return -ENOMEM;
    move_to((uintptr_t)arena, 0);
    return 0;
}
