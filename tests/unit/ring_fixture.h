/* SPDX-License-Identifier: Apache-2.0 */
/* A ring in memory. Tests write records as a client does; a visitor counts the records that the
 * reader takes. */
#ifndef HEAPPROFD_TESTS_RING_FIXTURE_H
#define HEAPPROFD_TESTS_RING_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/ring/ring_reader.h"

/* The records that the visitor saw. */
static struct {
    size_t events, stacks, modules, resets, threads, heaps, intervals, names, contexts;
    struct heap_event last;
    size_t walks, scopes, codes;
    uint64_t token;
    uint64_t unmapped_bytes;
    uint16_t unmapped_slot;
    uint8_t unmapped_heap;
    uint64_t sum; /* of addresses, weighted by order */
    uint32_t frames;
    char text[RECORD_PATH_MAX + 1];
} seen;

static inline int see_events(void *context, const struct heap_event *events, size_t count)
{
    (void)context;
    seen.events += count;
    for (size_t i = 0; i < count; i++)
        seen.sum = seen.sum * 31 + events[i].address;
    seen.last = events[count - 1];
    return 0;
}

static inline int see_stack(void *context, const struct record_stack *stack)
{
    (void)context;
    seen.stacks++;
    seen.frames = stack->count;
    return 0;
}

static inline int see_module(void *context, const struct record_module *module)
{
    (void)context;
    seen.modules++;
    memcpy(seen.text, module->bytes + module->build_id_length, module->path_length);
    seen.text[module->path_length] = 0;
    return 0;
}

static inline int see_reset(void *context)
{
    (void)context;
    seen.resets++;
    return 0;
}

static inline int see_thread(void *context, uint16_t slot, uint32_t tid, const char *name)
{
    (void)context;
    (void)slot;
    (void)tid;
    seen.threads++;
    strcpy(seen.text, name);
    return 0;
}

static inline int see_heap(void *context, uint8_t heap, uint64_t interval_bytes, const char *name)
{
    (void)context;
    (void)heap;
    (void)interval_bytes;
    seen.heaps++;
    strcpy(seen.text, name);
    return 0;
}

static inline int see_interval(void *context, uint8_t heap, uint32_t index, uint64_t interval_bytes)
{
    (void)context;
    (void)heap;
    (void)index;
    (void)interval_bytes;
    seen.intervals++;
    return 0;
}

static inline int see_name(void *context, const struct record_name *name)
{
    (void)context;
    seen.names++;
    memcpy(seen.text, name->bytes, name->length);
    seen.text[name->length] = 0;
    return 0;
}

static inline int see_context(void *context, const struct record_context *scopes)
{
    (void)context;
    seen.contexts++;
    seen.frames = scopes->count;
    return 0;
}

static inline int see_unmap(void *context, uint8_t heap, uint16_t slot,
                            const struct record_unmap *unmap, uint64_t time_ms)
{
    (void)context;
    (void)time_ms;
    seen.unmapped_heap = heap;
    seen.unmapped_slot = slot;
    seen.unmapped_bytes += unmap->length;
    return 0;
}

static inline int see_code(void *context, const struct record_code *code)
{
    (void)context;
    (void)code;
    seen.codes++;
    return 0;
}

static inline int see_walk(void *context, uint16_t slot, const struct record_walk *walk,
                           enum ring_unwinding *answer)
{
    (void)context;
    (void)slot;
    seen.walks++;
    seen.token = walk->token;
    *answer = RING_UNWINDING_NONE;
    return 0;
}

static inline int see_scope(void *context, uint16_t slot, const struct record_scope *scope)
{
    (void)context;
    (void)slot;
    (void)scope;
    seen.scopes++;
    return 0;
}

static inline uint64_t find_walked(void *context, uint16_t slot, uint64_t token)
{
    (void)context;
    (void)slot;
    return token == seen.token ? 4711 : 0;
}

static const struct ring_visitor visitor = {
    see_events, see_stack,   see_module, see_reset, see_thread, see_heap,    see_interval,
    see_name,   see_context, see_code,   see_unmap, see_walk,   find_walked, see_scope};

static struct ring_reader reader;
static int memfd;

static inline int open_ring(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    return ring_reader_open(&reader, RING_MEMFD_NAME, RING_DATA_BYTES_MIN, &memfd);
}

static inline int close_ring(void **state)
{
    (void)state;
    ring_reader_close(&reader);
    return close(memfd);
}

/* Reserve space for a record of this length. The caller writes the header. */
static inline void *reserve(uint32_t length)
{
    uint64_t reserved = reader.control->reserved;
    reader.control->reserved = reserved + length;
    return reader.data + (reserved & (reader.data_bytes - 1));
}

static inline union record_header *put(uint32_t length, uint8_t type)
{
    union record_header *header = reserve(length);
    *header = (union record_header){.length = length, .type = type};
    return header;
}

static inline void put_alloc(uint64_t address)
{
    struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
    record->address = address;
    record->size = 24;
}

static inline ssize_t drain(bool dead)
{
    return ring_reader_drain(&reader, dead, &visitor, NULL);
}

#define RING_TEST(test) cmocka_unit_test_setup_teardown(test, open_ring, close_ring)

#endif
