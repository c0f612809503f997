/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure what a dump costs the daemon. Write a ledger with these numbers of live samples and
 * callsites as a trace to /dev/null. Meanwhile events arrive: at each pause of the dump 2 ms worth
 * of events at 5 million a second. Print the total milliseconds and the longest time without
 * ingestion, for the first dump and a later one.
 *
 *   dump [live_samples [callsites [threads]]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/dump/dump.h"
#include "recorder/ledger/ledger.h"
#include "util/clock.h"
#include "wire/record.h"

#define FRAMES 30u
#define SHARED_FRAMES 20u
#define EVENTS_OF_A_PAUSE 10000u

/* Reads events while a dump is written. */
struct rings {
    struct ledger *ledger;
    uint64_t samples, callsites, threads, next;
    uint64_t free_since_ns, stall_ns;
};

static void add_stacks(struct ledger *ledger, uint64_t callsites)
{
    struct record_stack *stack = calloc(1, sizeof(*stack) + FRAMES * sizeof(stack->frames[0]));
    if (stack == NULL)
        abort();
    stack->count = FRAMES;
    for (uint64_t hash = 1; hash <= callsites; hash++) {
        stack->hash = hash;
        /* Frames are innermost first; the outer ones are shared. */
        for (unsigned i = 0; i < FRAMES; i++)
            stack->frames[i] = 0x400000 + (i < FRAMES - SHARED_FRAMES ? hash / (1 + i * 7) * 64 + i
                                                                      : (hash % 50) * 4096 + i);
        ledger_visitor.stack(ledger, stack);
    }
    free(stack);
}

static struct heap_event sample_event(const struct rings *rings, uint64_t i)
{
    return (struct heap_event){
        .type = RECORD_ALLOC,
        .thread = (uint16_t)(i / rings->callsites % rings->threads),
        .address = 0x7f0000000000 + i % rings->samples * 64,
        .size = 16 + i % 61 * 16,
        .stack = 1 + i % rings->callsites,
        .time_ms = (uint32_t)(i / 1000),
        .ordinal = (uint32_t)i,
    };
}

static void apply(struct rings *rings, const struct heap_event *event)
{
    if (ledger_visitor.events(rings->ledger, event, 1) < 0)
        abort();
}

static void add_samples(struct rings *rings)
{
    for (uint16_t i = 0; i < rings->threads; i++)
        ledger_visitor.thread(rings->ledger, i, 100u + i, "worker");
    for (; rings->next < rings->samples; rings->next++) {
        struct heap_event event = sample_event(rings, rings->next);
        apply(rings, &event);
    }
}

static void note_stall(struct rings *rings, uint64_t now_ns)
{
    if (now_ns - rings->free_since_ns > rings->stall_ns)
        rings->stall_ns = now_ns - rings->free_since_ns;
}

static void drain(void *context)
{
    struct rings *rings = context;
    note_stall(rings, clock_read_ns(CLOCK_MONOTONIC));
    for (unsigned i = 0; i < EVENTS_OF_A_PAUSE / 2; i++, rings->next++) {
        struct heap_event event = sample_event(rings, rings->next);
        event.type = RECORD_FREE;
        apply(rings, &event);
        event.type = RECORD_ALLOC;
        apply(rings, &event);
    }
    rings->free_since_ns = clock_read_ns(CLOCK_MONOTONIC);
}

static void measure_dump(struct rings *rings, struct trace_writer *writer, struct dump_files *files,
                         const char *which)
{
    const struct dump_request request = {.status = {.pid = getpid(), .exit_status = -1}};
    uint64_t before = clock_read_ns(CLOCK_MONOTONIC);
    rings->free_since_ns = before;
    rings->stall_ns = 0;
    if (dump_write(writer, files, rings->ledger, &request) < 0)
        abort();
    uint64_t now = clock_read_ns(CLOCK_MONOTONIC);
    note_stall(rings, now);
    printf("%s: %.0f ms, ingestion stalled for %.1f ms at most\n", which,
           (double)(now - before) / 1e6, (double)rings->stall_ns / 1e6);
}

int main(int argc, char **argv)
{
    struct rings rings = {
        .ledger = ledger_open(4096),
        .samples = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000,
        .callsites = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000,
        .threads = argc > 3 ? strtoull(argv[3], NULL, 10) : 1,
    };
    struct dump_files *files = dump_files_open(drain, &rings);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct trace_writer *writer = trace_writer_open(fd);
    if (rings.ledger == NULL || files == NULL || writer == NULL || rings.samples == 0 ||
        rings.callsites == 0 || rings.threads == 0 || rings.threads > 1000)
        return 1;
    add_stacks(rings.ledger, rings.callsites);
    add_samples(&rings);
    printf("%llu live samples at %llu callsites of %llu threads\n",
           (unsigned long long)rings.samples, (unsigned long long)rings.callsites,
           (unsigned long long)rings.threads);
    measure_dump(&rings, writer, files, "first dump");
    measure_dump(&rings, writer, files, "later dump");
    trace_writer_close(writer);
    dump_files_close(files);
    ledger_close(rings.ledger);
    close(fd);
    return 0;
}
