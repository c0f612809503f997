/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure what an event costs the daemon. Fill a ring with ALLOC and FREE records of a million live
 * samples, and drain it into a ledger. Print nanoseconds of CPU time for an event and bytes of
 * memory for a live sample: while samples are added, and while they come and go; then while each
 * sample returns with its old size ("level": no new maximum of the heap) and with a larger one
 * ("rising": only new maxima).
 *
 *   ledger [interval_bytes [live_samples [events [types]]]]
 *
 * types: number of types of the allocations, each in one of two contexts (0: no types).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "recorder/ledger/ledger.h"
#include "recorder/ring/ring_reader.h"
#include "util/clock.h"
#include "wire/barrier.h"

#define STACKS 5000u
#define THREADS 8u
#define EVENTS_TIMED_DEFAULT 20000000ull
#define BATCH_BYTES (512u << 10)

/* Small, so that this program uses little of the cache. */
struct block {
    uint64_t address : 48, size_16 : 16;
};

static struct ring_reader reader;
static uint64_t type_count;
static uint64_t random_state = 1, last_address = 0x7f0000000000;

static uint32_t next_random(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static void *reserve(uint32_t length)
{
    uint64_t reserved = reader.control->reserved;
    reader.control->reserved = reserved + length;
    return reader.data + (reserved & (reader.data_bytes - 1));
}

/* Return an unused address. */
static uint64_t next_address(void)
{
    return last_address += 16 * (1 + next_random() % 200);
}

static uint64_t random_size(void)
{
    return 16 + 16 * (next_random() % 64);
}

static void write_alloc(uint64_t address, uint64_t size, uint32_t ordinal)
{
    uint32_t length =
        type_count > 0 ? sizeof(struct record_tagged_alloc) : sizeof(struct record_alloc);
    struct record_tagged_alloc *tagged = reserve(length);
    struct record_alloc *record = &tagged->alloc;
    record->address = address;
    record->size = size;
    record->stack = 1 + next_random() % STACKS;
    record->time_ms = ordinal / 1000;
    record->ordinal = ordinal;
    union record_header header = {.length = length, .type = RECORD_ALLOC};
    header.thread = (uint16_t)(next_random() % THREADS);
    if (type_count > 0) {
        header.type = RECORD_TAGGED_ALLOC;
        /* Most stacks allocate few types. */
        tagged->type = 1 + (record->stack + next_random() % 2) % type_count;
        tagged->context = 1 + record->stack % 2;
    }
    record->header.word = header.word;
}

static void write_free(uint64_t address, uint32_t ordinal)
{
    struct record_free *record = reserve(sizeof(*record));
    record->address = address;
    record->time_ms = ordinal / 1000;
    record->ordinal = ordinal;
    union record_header header = {.length = sizeof(*record), .type = RECORD_FREE};
    record->header.word = header.word;
}

static uint64_t drain(struct ledger *ledger)
{
    uint64_t before = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (ring_reader_drain(&reader, false, &ledger_visitor, ledger) < 0)
        abort();
    return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
}

static void write_stacks(struct ledger *ledger)
{
    for (uint64_t hash = 1; hash <= STACKS; hash++) {
        uint32_t length = sizeof(struct record_stack) + 8 * 20;
        struct record_stack *record = reserve(length);
        record->hash = hash;
        record->count = 20;
        for (unsigned i = 0; i < 20; i++)
            record->frames[i] = 0x400000 + (i < 6 ? hash * 16 + i : i);
        union record_header header = {.length = length, .type = RECORD_STACK};
        record->header.word = header.word;
        drain(ledger);
    }
    for (uint16_t i = 0; i < THREADS; i++)
        ledger_visitor.thread(ledger, i, 100u + i, "worker");
}

static void write_names(void)
{
    for (uint64_t hash = 1; hash <= type_count; hash++) {
        struct record_name *name = reserve(sizeof(*name) + 16);
        name->hash = hash;
        name->length = (uint32_t)snprintf((char *)name->bytes, 16, "type %u", (unsigned)hash);
        name->header = (union record_header){.length = sizeof(*name) + 16, .type = RECORD_NAME};
    }
    for (uint64_t hash = 1; hash <= 2 && type_count > 0; hash++) {
        struct record_context *context = reserve(sizeof(*context) + 8);
        context->hash = hash;
        context->count = 1;
        context->names[0] = hash;
        context->header =
            (union record_header){.length = sizeof(*context) + 8, .type = RECORD_CONTEXT};
    }
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm != NULL && fscanf(statm, "%*d %ld", &pages) != 1)
        pages = 0;
    if (statm != NULL)
        fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Write pairs of a free and an allocation until this number of events. Return nanoseconds of CPU
 * time for an event. `grows`: growth of each block in units of 16 bytes; negative: random sizes. */
static double churn(struct ledger *ledger, struct block *blocks, uint64_t live,
                    uint64_t events_timed, int grows)
{
    uint64_t ns = 0, events = 0;
    while (events < events_timed) {
        for (uint32_t bytes = 0; bytes < BATCH_BYTES; bytes += 72, events += 2) {
            struct block *victim = &blocks[next_random() % live];
            write_free(victim->address, (uint32_t)events);
            /* Half of the addresses are reused, as by real allocators. */
            if (next_random() & 1)
                victim->address = next_address();
            victim->size_16 = grows < 0 ? random_size() / 16 : victim->size_16 + (unsigned)grows;
            write_alloc(victim->address, victim->size_16 * 16u, (uint32_t)events);
        }
        ns += drain(ledger);
    }
    return (double)ns / (double)events;
}

/* Free or allocate a large block. Without it the heap is below its maximum; with it, at its
 * maximum. */
static void write_large(struct ledger *ledger, bool freed)
{
    if (freed)
        write_free(16, 0);
    else
        write_alloc(16, 1 << 30, 0);
    drain(ledger);
}

int main(int argc, char **argv)
{
    uint64_t interval = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    uint64_t live = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    uint64_t events_timed = argc > 3 ? strtoull(argv[3], NULL, 10) : EVENTS_TIMED_DEFAULT;
    type_count = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    struct ledger *ledger = ledger_open(interval);
    struct block *blocks = calloc(live, sizeof(*blocks));
    int memfd;
    if (ledger == NULL || blocks == NULL || live == 0 ||
        ring_reader_open(&reader, RING_MEMFD_NAME, 8u << 20, &memfd) < 0)
        return 1;
    close(memfd);
    memset(reader.data, 0, reader.data_bytes);
    memset(blocks, 1, live * sizeof(*blocks));
    write_stacks(ledger);
    write_names();
    drain(ledger);

    long before_kib = resident_kib();
    uint64_t fill_ns = 0;
    for (uint64_t i = 0; i < live; i++) {
        blocks[i] = (struct block){.address = next_address(), .size_16 = random_size() / 16};
        write_alloc(blocks[i].address, blocks[i].size_16 * 16u, (uint32_t)i);
        if (i % 8192 == 8191)
            fill_ns += drain(ledger);
    }
    fill_ns += drain(ledger);
    printf("interval %llu, %llu live samples, of %llu types\n", (unsigned long long)interval,
           (unsigned long long)live, (unsigned long long)type_count);
    printf("filling:  %.1f ns of CPU an event\n", (double)fill_ns / (double)live);
    printf("memory:   %.1f bytes a live sample\n",
           (double)(resident_kib() - before_kib) * 1024 / (double)live);
    printf("churning: %.1f ns of CPU an event\n", churn(ledger, blocks, live, events_timed, -1));
    printf("after %llu events: %.1f bytes a live sample\n", (unsigned long long)events_timed,
           (double)(resident_kib() - before_kib) * 1024 / (double)live);
    write_large(ledger, false);
    write_large(ledger, true);
    printf("level:    %.1f ns of CPU an event\n", churn(ledger, blocks, live, events_timed / 2, 0));
    write_large(ledger, false);
    printf("rising:   %.1f ns of CPU an event\n", churn(ledger, blocks, live, events_timed / 2, 1));
    ledger_close(ledger);
    ring_reader_close(&reader);
    free(blocks);
    return 0;
}
