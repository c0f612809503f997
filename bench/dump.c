/*
 * What a dump costs the daemon: a ledger of so many live samples at so many callsites, written as a
 * trace to /dev/null. Prints milliseconds, of the first dump and of a later one.
 *
 *   dump [live_samples [callsites]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/dump.h"
#include "daemon/ledger.h"
#include "wire/record.h"

#define FRAMES 30u
#define SHARED_FRAMES 20u
#define THREADS 8u

static void add_stacks(struct ledger *ledger, uint64_t callsites)
{
    struct record_stack *stack = calloc(1, sizeof(*stack) + FRAMES * sizeof(stack->frames[0]));
    if (stack == NULL)
        abort();
    stack->count = FRAMES;
    for (uint64_t hash = 1; hash <= callsites; hash++) {
        stack->hash = hash;
        /* Innermost first: what is shared is the way from the start. */
        for (unsigned i = 0; i < FRAMES; i++)
            stack->frames[i] = 0x400000 + (i < FRAMES - SHARED_FRAMES ? hash / (1 + i * 7) * 64 + i
                                                                      : (hash % 50) * 4096 + i);
        ledger_visitor.stack(ledger, stack);
    }
    free(stack);
    for (uint16_t i = 0; i < THREADS; i++)
        ledger_thread(ledger, i, 100u + i, "worker");
}

static void add_samples(struct ledger *ledger, uint64_t samples, uint64_t callsites)
{
    struct heap_event event = {0};
    for (uint64_t i = 0; i < samples; i++) {
        event.type = RECORD_ALLOC;
        event.thread = (uint16_t)(i % THREADS);
        event.address = 0x7f0000000000 + i * 64;
        event.size = 16 + i % 61 * 16;
        event.stack = 1 + i % callsites;
        event.time_ms = (uint32_t)(i / 1000);
        event.ordinal = (uint32_t)i;
        if (ledger_visitor.events(ledger, &event, 1) < 0)
            abort();
    }
}

static double dump_ms(struct trace_writer *writer, struct dump_files *files,
                      const struct ledger *ledger)
{
    struct trace_heap_dump status = {.pid = getpid(), .exit_status = -1};
    uint64_t before = clock_read_ns(CLOCK_MONOTONIC);
    if (dump_write(writer, files, ledger, &status, 0, 0) < 0)
        abort();
    return (double)(clock_read_ns(CLOCK_MONOTONIC) - before) / 1e6;
}

int main(int argc, char **argv)
{
    uint64_t samples = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    uint64_t callsites = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    struct ledger *ledger = ledger_open(4096);
    struct dump_files *files = dump_files_open(NULL, NULL);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct trace_writer *writer = trace_writer_open(fd);
    if (ledger == NULL || files == NULL || writer == NULL || callsites == 0)
        return 1;
    add_stacks(ledger, callsites);
    add_samples(ledger, samples, callsites);
    double first = dump_ms(writer, files, ledger), later = dump_ms(writer, files, ledger);
    printf("%llu live samples at %llu callsites: first dump %.0f ms, a later one %.0f ms\n",
           (unsigned long long)samples, (unsigned long long)callsites, first, later);
    trace_writer_close(writer);
    dump_files_close(files);
    ledger_close(ledger);
    close(fd);
    return 0;
}
