/*
 * Many threads write through the client's ring writer, one reader drains: no
 * record is lost, torn or out of its thread's order, and writers that wait are
 * woken. Made for ThreadSanitizer (-Db_sanitize=thread); writers and reader use
 * the same mapping, so that it sees both sides of each hand-over.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/ring_writer.h"
#include "daemon/clock.h"
#include "daemon/ring_reader.h"
#include "wire/handshake.h"

#define THREADS 8
#define RECORDS 200000u

/* What ring_writer.c needs of the rest of the client. */
static struct client_live live = {.state = CLIENT_ACTIVE};
struct client client = {.live = &live};

uint64_t clock_now_ms(void)
{
    return clock_read_ms(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_now_us(void)
{
    return clock_read_ns(CLOCK_MONOTONIC) / 1000;
}

static struct ring_reader reader;
static uint32_t next_ordinal[THREADS];
static uint64_t torn, disordered, taken;

static uint64_t expected_address(uint16_t thread, uint32_t ordinal)
{
    return ((uint64_t)thread << 40 | ordinal) * 8 + 8;
}

static int take_events(void *context, const struct heap_event *events, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const struct heap_event *event = &events[i];
        taken++;
        torn += event->address != expected_address(event->thread, event->ordinal) ||
                (event->type == RECORD_ALLOC && event->size != event->address * 3);
        disordered += event->ordinal != next_ordinal[event->thread]++;
    }
    return 0;
}

static int take_stack(void *context, const struct record_stack *stack)
{
    (void)context;
    for (uint32_t i = 0; i < stack->count; i++)
        torn += stack->frames[i] != stack->hash + i;
    return 0;
}

static const struct ring_visitor visitor = {.events = take_events, .stack = take_stack};

static void *write_records(void *argument)
{
    struct ring_thread *thread = argument;
    uint16_t index = (uint16_t)(thread - client.threads);
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint64_t address = expected_address(index, i);
        if (i % 16 == 0) {
            uint32_t count = i % 64;
            struct record_stack *stack = ring_writer_reserve(thread, sizeof(*stack) + 8 * count);
            stack->hash = address;
            stack->count = count;
            stack->flags = stack->error = 0;
            for (uint32_t frame = 0; frame < count; frame++)
                stack->frames[frame] = address + frame;
            ring_writer_commit(thread, stack, RECORD_STACK);
        }
        if (i % 2 == 0) {
            struct record_alloc *record = ring_writer_reserve(thread, sizeof(*record));
            record->address = address;
            record->size = address * 3;
            record->ordinal = i;
            ring_writer_commit(thread, record, RECORD_ALLOC);
        } else {
            struct record_free *record = ring_writer_reserve(thread, sizeof(*record));
            record->address = address;
            record->ordinal = i;
            ring_writer_commit(thread, record, RECORD_FREE);
        }
    }
    return NULL;
}

static void test_nothing_is_lost_torn_or_disordered(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int memfd;
    assert_int_equal(0, ring_reader_open(&reader, 64u << 10, &memfd));
    close(memfd);
    client.control = reader.control;
    client.threads = reader.threads;
    client.data = reader.data;
    client.data_mask = reader.data_bytes - 1;
    client.flags = HANDSHAKE_BLOCK_CLIENT;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, write_records, &client.threads[i]));

    while (taken < (uint64_t)THREADS * RECORDS) {
        ring_reader_beat(&reader, clock_read_ms(CLOCK_MONOTONIC));
        ssize_t got = ring_reader_drain(&reader, false, &visitor, NULL);
        assert_true(got >= 0);
        if (got == 0)
            usleep(50);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(0, torn);
    assert_int_equal(0, disordered);
    assert_int_equal(0, reader.control->waiters);
    assert_int_equal(RING_CLIENT_RUNNING, reader.control->client_state);
    ring_reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost_torn_or_disordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
