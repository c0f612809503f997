/* SPDX-License-Identifier: Apache-2.0 */
/* Unfinished records: how long the reader waits for the writer of each. */
#include <signal.h>
#include <sys/wait.h>

#include "ring_fixture.h"

static void test_busy_record_is_waited_for(void **state)
{
    (void)state;
    union record_header *busy = put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    assert_int_equal(0, drain(false));
    busy->type = RECORD_ALLOC;
    assert_int_equal(2 * sizeof(struct record_alloc), drain(false));
    assert_int_equal(2, seen.events);
}

static void test_zero_header_is_waited_for(void **state)
{
    (void)state;
    reserve(sizeof(struct record_alloc));
    put_alloc(0x2000);
    assert_int_equal(0, drain(false));
    assert_int_equal(0, seen.events);
}

static void test_busy_at_death_is_stepped_over(void **state)
{
    (void)state;
    put_alloc(0x1000);
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    assert_int_equal(3 * sizeof(struct record_alloc), drain(true));
    assert_int_equal(2, seen.events);
    assert_int_equal(sizeof(struct record_alloc), reader.busy_bytes);
}

static void test_unmarked_at_death_is_stepped_over(void **state)
{
    (void)state;
    put_alloc(0x1000);
    reserve(64);
    put_alloc(0x2000);
    reserve(48);
    assert_true(drain(true) > 0);
    assert_int_equal(2, seen.events);
    assert_int_equal(112, reader.busy_bytes);
}

/* Wait until nothing blocks the reader, with periodic checks as in the daemon. */
static void expect_unstuck_after(uint64_t milliseconds)
{
    assert_int_equal(0, drain(false));
    assert_false(ring_reader_unstick(&reader, 5000));
    assert_false(ring_reader_unstick(&reader, 5000 + milliseconds - 1));
    assert_true(ring_reader_unstick(&reader, 5000 + milliseconds));
    assert_true(drain(false) > 0);
}

static void test_abandoned_record_is_stepped_over_in_time(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    expect_unstuck_after(RING_ABANDONED_MS);
    assert_int_equal(1, seen.events);
    assert_int_equal(sizeof(struct record_alloc), reader.busy_bytes);
    assert_int_equal(reader.control->reserved, reader.control->consumed);
}

static void test_abandoned_place_without_header_is_stepped_over_in_time(void **state)
{
    (void)state;
    reserve(64);
    put_alloc(0x2000);
    expect_unstuck_after(RING_ABANDONED_MS);
    assert_int_equal(1, seen.events);
}

#define WAIT_SLICE_MS 50 /* of the client's waiting threads */

/* Look at the ring while a thread of the process waits for space. */
static bool unstick_after_waiting(unsigned milliseconds)
{
    bool is_free = false;
    for (; milliseconds >= WAIT_SLICE_MS && !is_free; milliseconds -= WAIT_SLICE_MS) {
        reader.control->waiting_ms += WAIT_SLICE_MS;
        is_free = ring_reader_unstick(&reader, 100000);
    }
    return is_free;
}

static void test_writer_at_work_is_waited_for_while_nobody_waits(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.control->threads_used = 1;
    reader.threads[0].in_ring = RING_WRITES;
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 100000));
    reader.control->threads_used = 2;
    reader.threads[1].in_ring = RING_WAITS;
    assert_false(ring_reader_unstick(&reader, 100000));
    assert_false(unstick_after_waiting(RING_ABANDONED_SOME_WAIT_MS - WAIT_SLICE_MS));
    assert_false(unstick_after_waiting(WAIT_SLICE_MS)); /* it seems to be left */
    assert_true(unstick_after_waiting(WAIT_SLICE_MS));
}

/* Return a tid that none of our threads has. */
static pid_t number_of_nobody(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(child, waitpid(child, NULL, 0));
    return child;
}

/* The thread is marked as writing but has ended: the reader must not wait. */
static void test_record_of_an_ended_thread_is_stepped_over(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.process = getpid();
    reader.control->threads_used = 1;
    reader.threads[0].in_ring = RING_WRITES;
    reader.threads[0].tid = (uint32_t)gettid();
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 100000));
    reader.threads[0].tid = (uint32_t)number_of_nobody();
    assert_true(ring_reader_unstick(&reader, 100000));
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.events);
}

/* Start a process with one thread, which has an open record, while another thread waits for
 * space. */
static pid_t begin_writer(bool sleeps)
{
    pid_t child = fork();
    if (child == 0) {
        while (true)
            if (sleeps)
                pause();
    }
    assert_true(child > 0);
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.process = child;
    reader.control->threads_used = 2;
    reader.threads[0].in_ring = RING_WRITES;
    reader.threads[0].tid = (uint32_t)child;
    reader.threads[1].in_ring = RING_WAITS;
    return child;
}

static void end_writer(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(child, waitpid(child, NULL, 0));
}

/* If the reader skipped the record, the thread would later write over another one. */
static void test_record_of_a_thread_that_does_not_run_is_waited_for(void **state)
{
    (void)state;
    pid_t child = begin_writer(false);
    kill(child, SIGSTOP);
    assert_int_equal(child, waitpid(child, NULL, WUNTRACED));
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 1000 + 10 * RING_UNSCHEDULED_MS));
    assert_false(unstick_after_waiting(RING_UNSCHEDULED_MS - WAIT_SLICE_MS));
    assert_int_equal(0, reader.control->stopping);
    kill(child, SIGCONT);
    while (!unstick_after_waiting(WAIT_SLICE_MS))
        usleep(10000); /* it runs without finishing */
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.events);
    end_writer(child);
}

/* The session ends if others wait for such a thread, and its record stays its own. */
static void test_threads_do_not_wait_for_ever_for_one_that_does_not_run(void **state)
{
    (void)state;
    pid_t child = begin_writer(false);
    reader.control->client_state = RING_CLIENT_RUNNING;
    kill(child, SIGSTOP);
    assert_int_equal(child, waitpid(child, NULL, WUNTRACED));
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(unstick_after_waiting(RING_UNSCHEDULED_MS));
    assert_int_equal(RING_CLIENT_HELD, reader.control->client_state);
    assert_int_equal(1, reader.control->stopping);
    assert_int_equal(0, drain(false));
    assert_int_equal(0, reader.control->consumed);
    end_writer(child);
}

/* The thread between its reservation and its header is one of those that say that they write. */
static void test_place_of_a_thread_that_does_not_run_is_waited_for(void **state)
{
    (void)state;
    pid_t child = begin_writer(false);
    kill(child, SIGSTOP);
    assert_int_equal(child, waitpid(child, NULL, WUNTRACED));
    ((union record_header *)reader.data)->word = 0;
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(unstick_after_waiting(RING_UNSCHEDULED_MS - WAIT_SLICE_MS));
    reader.threads[0].in_ring = RING_AWAY;
    assert_false(unstick_after_waiting(WAIT_SLICE_MS));
    assert_true(unstick_after_waiting(WAIT_SLICE_MS));
    end_writer(child);
}

static void test_record_of_a_thread_that_sleeps_was_left(void **state)
{
    (void)state;
    pid_t child = begin_writer(true);
    assert_false(ring_reader_unstick(&reader, 1000));
    while (!unstick_after_waiting(RING_ABANDONED_SOME_WAIT_MS))
        usleep(1000); /* until it sleeps */
    end_writer(child);
}

/* In a frozen cgroup each thread seems to sleep, and none waits for space any more. */
static void test_record_of_a_frozen_process_is_waited_for(void **state)
{
    (void)state;
    pid_t child = begin_writer(false);
    kill(child, SIGSTOP);
    assert_int_equal(child, waitpid(child, NULL, WUNTRACED));
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(unstick_after_waiting(RING_UNSCHEDULED_MS / 2));
    end_writer(child);
    child = begin_writer(true);
    reader.threads[0].tid = (uint32_t)child;
    for (int i = 0; i < 100; i++, usleep(1000))
        assert_false(ring_reader_unstick(&reader, 100000 + 1000 * (uint64_t)i));
    end_writer(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RING_TEST(test_busy_record_is_waited_for),
        RING_TEST(test_zero_header_is_waited_for),
        RING_TEST(test_busy_at_death_is_stepped_over),
        RING_TEST(test_unmarked_at_death_is_stepped_over),
        RING_TEST(test_abandoned_record_is_stepped_over_in_time),
        RING_TEST(test_abandoned_place_without_header_is_stepped_over_in_time),
        RING_TEST(test_record_of_an_ended_thread_is_stepped_over),
        RING_TEST(test_record_of_a_thread_that_does_not_run_is_waited_for),
        RING_TEST(test_threads_do_not_wait_for_ever_for_one_that_does_not_run),
        RING_TEST(test_place_of_a_thread_that_does_not_run_is_waited_for),
        RING_TEST(test_record_of_a_thread_that_sleeps_was_left),
        RING_TEST(test_record_of_a_frozen_process_is_waited_for),
        RING_TEST(test_writer_at_work_is_waited_for_while_nobody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
