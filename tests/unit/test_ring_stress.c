/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads write through the client's ring writer, and one reader drains the ring: no record is
 * lost, torn or out of its thread's order, and waiting writers are woken. Meant for ThreadSanitizer
 * (-Db_sanitize=thread); writers and reader use the same mapping, so that it sees both sides.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/sample/ring_commit.h"
#include "client/sample/ring_writer.h"
#include "client/sample/thread_slot.h"
#include "recorder/ring/ring_reader.h"
#include "util/clock.h"
#include "wire/handshake.h"

#define THREADS 8
#define RECORDS 200000u

/* The parts of the client that ring_writer.c needs. */
static struct client_process process = {.state = CLIENT_ACTIVE};
struct client client = {.process = &process};

uint64_t clock_now_ms(void)
{
    return clock_read_ms(CLOCK_MONOTONIC_COARSE);
}

/* Added to the clock at each reading, as if the process had been stopped in between. */
static _Atomic uint64_t stopped_us, stops_us;

/* Not NULL: the thread that looks at the clock leaves its wait, as a signal handler may. Only every
 * other look is in a wait. */
static __thread jmp_buf *left_to;
static __thread unsigned looks;

uint64_t clock_now_us(void)
{
    stopped_us += stops_us;
    if (left_to != NULL && ++looks % 2 == 0)
        longjmp(*left_to, 1);
    return clock_read_ns(CLOCK_MONOTONIC) / 1000 + stopped_us;
}

/* The whole address space counts as the thread's own stack. */
static struct unwind_stack_bounds whole_stack = {.low = 1, .high = UINTPTR_MAX};

struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread)
{
    (void)thread;
    return &whole_stack;
}

static struct ring_reader reader;
static uint32_t next_ordinal[THREADS];
static uint64_t torn, disordered, taken;
static uint64_t held[THREADS]; /* the address that is live; 0: none */

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

static int open_ring(void **state)
{
    (void)state;
    int memfd;
    assert_int_equal(0, ring_reader_open(&reader, RING_MEMFD_NAME, 64u << 10, &memfd));
    close(memfd);
    client.control = reader.control;
    client.control->client_state = RING_CLIENT_RUNNING;
    client.threads = reader.threads;
    client.pending = reader.pending;
    client.data = reader.data;
    client.data_mask = reader.data_bytes - 1;
    client.flags = HANDSHAKE_BLOCK_CLIENT;
    taken = torn = disordered = 0;
    for (int i = 0; i < THREADS; i++)
        next_ordinal[i] = 0, held[i] = 0;
    return 0;
}

static int close_ring(void **state)
{
    (void)state;
    ring_reader_close(&reader);
    return 0;
}

/* Use stack space that the optimizer cannot remove. */
static inline void stand_deeper(void *room)
{
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* Reserve a record and return without finishing it, like a writer that a jump abandons. */
static __attribute__((noinline)) void *leave_open(struct ring_thread *thread, uint32_t bytes)
{
    char room[256];
    stand_deeper(room);
    void *record = ring_writer_reserve(thread, bytes);
    stand_deeper(room);
    return record;
}

/* Advance the time until the daemon steps over the open record. */
static void step_over(struct ring_thread *thread)
{
    thread->in_ring = RING_AWAY;
    ring_reader_unstick(&reader, 1);
    ring_reader_unstick(&reader, 1 + RING_ABANDONED_MS);
    assert_int_equal(reader.control->reserved, reader.control->consumed);
}

static __attribute__((noinline)) bool write_free(struct ring_thread *thread, uint32_t ordinal)
{
    struct record_free *record = ring_writer_reserve(thread, sizeof(*record));
    record->address = expected_address((uint16_t)(thread - client.threads), ordinal);
    record->ordinal = ordinal;
    return ring_writer_commit(thread, record, RECORD_FREE);
}

/* Called from a deeper frame, like a handler, than the code that it interrupts. */
static __attribute__((noinline)) bool write_free_deeper(struct ring_thread *thread,
                                                        uint32_t ordinal)
{
    char room[1024];
    stand_deeper(room);
    bool written = write_free(thread, ordinal);
    stand_deeper(room);
    return written;
}

static void test_abandoned_record_is_skipped_at_once(void **state)
{
    (void)state;
    leave_open(&client.threads[2], sizeof(struct record_free));
    assert_int_equal(RING_WRITES, client.threads[2].in_ring);
    assert_true(write_free(&client.threads[2], 0));
    assert_int_equal(RING_AWAY, client.threads[2].in_ring);
    assert_int_equal(1, reader.control->lost[RING_LOST_ABANDONED]);
    assert_true(ring_reader_drain(&reader, false, &visitor, NULL) > 0);
    assert_int_equal(1, taken);
    assert_int_equal(0, torn);
    assert_int_equal(sizeof(struct record_free), reader.busy_bytes);
    assert_int_equal(reader.control->reserved, reader.control->consumed);
}

static void test_record_around_a_handler_stays_open(void **state)
{
    (void)state;
    struct ring_thread *thread = &client.threads[2];
    struct record_free *outer = ring_writer_reserve(thread, sizeof(*outer));
    assert_true(write_free_deeper(thread, 1));
    assert_int_equal(RING_WRITES, thread->in_ring);
    outer->address = expected_address(2, 0);
    outer->ordinal = 0;
    assert_true(ring_writer_commit(thread, outer, RECORD_FREE));
    assert_int_equal(RING_AWAY, thread->in_ring);
    assert_int_equal(0, reader.control->lost[RING_LOST_ABANDONED]);
    assert_true(ring_reader_drain(&reader, false, &visitor, NULL) > 0);
    assert_int_equal(2, taken);
    assert_int_equal(0, torn + disordered);
}

static void test_record_that_comes_too_late_is_not_published(void **state)
{
    (void)state;
    struct ring_thread *thread = &client.threads[2];
    void *late = leave_open(thread, sizeof(struct record_free));
    step_over(thread);
    assert_false(ring_writer_commit(thread, late, RECORD_FREE));
    assert_int_equal(1, reader.control->lost[RING_LOST_ABANDONED]);
    assert_true(write_free(thread, 0));
    assert_true(ring_reader_drain(&reader, false, &visitor, NULL) > 0);
    assert_int_equal(1, taken);
    assert_int_equal(0, torn);
}

/* The ring space of an abandoned record can hold another thread's record by now. */
static void test_record_in_anothers_slot_is_not_skipped(void **state)
{
    (void)state;
    struct ring_thread *thread = &client.threads[2], *other = &client.threads[3];
    void *left = leave_open(thread, 64);
    step_over(thread);
    while (reader.control->reserved < reader.data_bytes) {
        leave_open(other, 64);
        step_over(other);
    }
    struct record_free *others = leave_open(other, 64);
    assert_ptr_equal(left, others);
    thread->in_ring = RING_WRITES; /* the thread has not returned since */
    assert_true(write_free(thread, 0));
    assert_int_equal(0, reader.control->lost[RING_LOST_ABANDONED]);
    others->address = expected_address(3, 0);
    others->ordinal = 0;
    assert_true(ring_writer_commit(other, others, RECORD_FREE));
    assert_true(ring_reader_drain(&reader, false, &visitor, NULL) > 0);
    assert_int_equal(2, taken);
    assert_int_equal(0, torn + disordered);
}

/* A thread reads `reserved` before `consumed`, so `consumed` can be ahead. The ring is not full
 * then. */
static void test_outdated_counters_are_not_a_full_ring(void **state)
{
    (void)state;
    client.flags = 0; /* a full ring ends the session */
    reader.control->consumed = reader.control->reserved + 128;
    assert_non_null(ring_writer_reserve(&client.threads[2], 64));
    assert_int_equal(RING_CLIENT_RUNNING, reader.control->client_state);
    assert_int_equal(CLIENT_ACTIVE, process.state);
}

static void test_nothing_is_lost_torn_or_disordered(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
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
}

/* Return NULL if the session has ended. */
static void *write_one(void *argument)
{
    struct record_free *record = ring_writer_reserve(argument, sizeof(*record));
    if (record == NULL)
        return NULL;
    record->address = expected_address(3, 0);
    record->ordinal = 0;
    return ring_writer_commit(argument, record, RECORD_FREE) ? record : NULL;
}

static void fill_ring(struct ring_thread *thread)
{
    uint32_t ordinal = 0;
    while (reader.control->reserved + sizeof(struct record_free) <= reader.data_bytes)
        assert_true(write_free(thread, ordinal++));
}

static void await_waiter(void)
{
    while (load_relaxed(&reader.control->waiters) == 0)
        usleep(50);
}

/* A thread waits at a full ring. After a stop of both the program and the profiler, the profiler
 * does not count as dead although its last heartbeat is old. */
static void test_own_stop_does_not_count_as_silence(void **state)
{
    (void)state;
    pthread_t waiting;
    void *written;
    fill_ring(&client.threads[2]);
    ring_reader_beat(&reader, 1);
    stops_us = UINT64_C(10000000);
    assert_int_equal(0, pthread_create(&waiting, NULL, write_one, &client.threads[3]));
    await_waiter();
    usleep(120000);
    assert_true(ring_reader_drain(&reader, false, &visitor, NULL) > 0);
    pthread_join(waiting, &written);
    stops_us = 0;
    assert_non_null(written);
    assert_int_equal(RING_CLIENT_RUNNING, reader.control->client_state);
    assert_int_equal(CLIENT_ACTIVE, process.state);
}

static void *wake_always(void *argument)
{
    while (load_relaxed(&process.state) == CLIENT_ACTIVE) {
        add_ordered(&reader.control->space_futex, 1);
        syscall(SYS_futex, &reader.control->space_futex, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    return argument;
}

/* Each wait of 50 ms returns at once. After 5 s without a heartbeat the profile ends. */
static void test_silence_ends_the_profile(void **state)
{
    (void)state;
    pthread_t waiting, waking;
    void *written;
    fill_ring(&client.threads[2]);
    stops_us = 50000;
    assert_int_equal(0, pthread_create(&waiting, NULL, write_one, &client.threads[3]));
    await_waiter();
    assert_int_equal(0, pthread_create(&waking, NULL, wake_always, NULL));
    pthread_join(waiting, &written);
    pthread_join(waking, NULL);
    stops_us = 0;
    assert_null(written);
    assert_int_equal(RING_CLIENT_DAEMON_GONE, reader.control->client_state);
    process.state = CLIENT_ACTIVE;
}

/* Write until the session ends. Each wait ends by a jump. Return NULL if it does not end. */
static void *write_and_jump(void *argument)
{
    jmp_buf outside;
    for (volatile unsigned jumps = 0; jumps < 1000; jumps++) {
        if (setjmp(outside) != 0)
            continue;
        left_to = &outside;
        void *written = write_one(argument);
        left_to = NULL;
        return written == NULL ? argument : NULL;
    }
    left_to = NULL;
    return NULL;
}

/* The waits of 50 ms count although none of them ends. */
static void test_silence_ends_the_profile_of_threads_that_jump(void **state)
{
    (void)state;
    pthread_t waiting, waking;
    void *ended;
    fill_ring(&client.threads[2]);
    stops_us = 50000;
    assert_int_equal(0, pthread_create(&waiting, NULL, write_and_jump, &client.threads[3]));
    await_waiter();
    assert_int_equal(0, pthread_create(&waking, NULL, wake_always, NULL));
    pthread_join(waiting, &ended);
    store_relaxed(&process.state, CLIENT_ENDED);
    pthread_join(waking, NULL);
    stops_us = 0;
    assert_non_null(ended);
    assert_int_equal(RING_CLIENT_DAEMON_GONE, reader.control->client_state);
    process.state = CLIENT_ACTIVE;
}

/* --- frees directly after their allocations --- */

#define PAIRERS 3
#define PAIRS 300000u

static uint64_t allocs, frees, short_frees;

static int take_pairs(void *context, const struct heap_event *events, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        uint64_t *live = &held[events[i].thread];
        if (events[i].type == RECORD_ALLOC) {
            allocs++;
            disordered += *live != 0;
            *live = events[i].address;
        } else {
            frees++;
            torn += *live != events[i].address;
            *live = 0;
        }
    }
    return 0;
}

static const struct ring_visitor pairs_visitor = {.events = take_pairs};

static struct ring_alloc write_noted(struct ring_thread *thread, uint64_t address, uint32_t ordinal)
{
    const struct ring_alloc alloc = {.address = address, .ordinal = ordinal, .time_ms = 1};
    struct record_alloc *record = ring_writer_reserve(thread, sizeof(*record));
    record->address = address;
    record->size = address * 3;
    record->flags = 0;
    record->time_ms = 1;
    record->ordinal = ordinal;
    uint64_t end = ring_end_of(ring_offset_of(record), sizeof(*record));
    ring_writer_commit(thread, record, RECORD_ALLOC);
    ring_writer_note_alloc(thread, end, &alloc);
    return alloc;
}

static void *write_pairs(void *argument)
{
    struct ring_thread *thread = argument;
    uint16_t index = (uint16_t)(thread - client.threads);
    for (uint32_t i = 0; i < PAIRS; i++) {
        struct ring_alloc alloc = write_noted(thread, expected_address(index, i % 8), i);
        if (ring_writer_free_last(thread, &alloc)) {
            add_relaxed(&short_frees, 1);
            continue;
        }
        struct record_free *record = ring_writer_reserve(thread, sizeof(*record));
        record->address = alloc.address;
        record->ordinal = i;
        ring_writer_commit(thread, record, RECORD_FREE);
    }
    return NULL;
}

/* Each block is freed exactly once, whichever record frees it, and before the thread's next one. */
static void test_pairs_are_whole(void **state)
{
    (void)state;
    pthread_t threads[PAIRERS];
    allocs = frees = short_frees = 0;
    client.control->threads_used = PAIRERS;
    for (int i = 0; i < PAIRERS; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, write_pairs, &client.threads[i]));
    while (frees < (uint64_t)PAIRERS * PAIRS && torn == 0 && disordered == 0) {
        ring_reader_beat(&reader, clock_read_ms(CLOCK_MONOTONIC));
        ssize_t got = ring_reader_drain(&reader, false, &pairs_visitor, NULL);
        assert_true(got >= 0);
        if (got == 0)
            usleep(50);
    }
    for (int i = 0; i < PAIRERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(0, torn);
    assert_int_equal(0, disordered);
    assert_int_equal(PAIRERS * PAIRS, allocs);
    assert_true(short_frees > 0);
}

static void test_only_the_last_alloc_has_a_short_free(void **state)
{
    (void)state;
    struct ring_thread *thread = &client.threads[1], *other = &client.threads[2];
    allocs = frees = 0;
    const struct ring_alloc none = {0}, first = write_noted(thread, 8, 5);
    struct ring_alloc changed[] = {first, first, first, first};
    changed[0].address = 16;
    changed[1].ordinal = 6;
    changed[2].time_ms = 2;
    changed[3].heap = 1;
    for (int i = 0; i < 4; i++)
        assert_false(ring_writer_free_last(thread, &changed[i]));
    assert_false(ring_writer_free_last(other, &first));
    assert_false(ring_writer_free_last(other, &none));
    assert_true(ring_writer_free_last(thread, &first));
    assert_false(ring_writer_free_last(thread, &first));

    const struct ring_alloc second = write_noted(thread, 16, 6), third = write_noted(other, 24, 1);
    assert_false(ring_writer_free_last(thread, &second));
    assert_true(ring_reader_drain(&reader, false, &pairs_visitor, NULL) > 0);
    assert_true(ring_writer_free_last(other, &third));
    assert_true(ring_reader_drain(&reader, false, &pairs_visitor, NULL) > 0);
    assert_int_equal(3, allocs);
    assert_int_equal(2, frees);
    assert_int_equal(0, torn);
}

/* Inside an open record, as in a handler that interrupted it, no record is short. */
static void test_no_short_free_inside_an_open_record(void **state)
{
    (void)state;
    struct ring_thread *thread = &client.threads[1];
    const struct ring_alloc alloc = write_noted(thread, 8, 5);
    thread->in_ring = RING_WRITES;
    assert_false(ring_writer_free_last(thread, &alloc));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pairs_are_whole, open_ring, close_ring),
        cmocka_unit_test_setup_teardown(test_only_the_last_alloc_has_a_short_free, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_no_short_free_inside_an_open_record, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_nothing_is_lost_torn_or_disordered, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_abandoned_record_is_skipped_at_once, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_record_around_a_handler_stays_open, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_record_that_comes_too_late_is_not_published, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_record_in_anothers_slot_is_not_skipped, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_outdated_counters_are_not_a_full_ring, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_own_stop_does_not_count_as_silence, open_ring,
                                        close_ring),
        cmocka_unit_test_setup_teardown(test_silence_ends_the_profile, open_ring, close_ring),
        cmocka_unit_test_setup_teardown(test_silence_ends_the_profile_of_threads_that_jump,
                                        open_ring, close_ring),
    };
    if (ring_writer_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
