/* SPDX-License-Identifier: Apache-2.0 */
/* How a session treats the rings of its targets during long work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/server/server.h"
#include "recorder/session/session_state.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/kernel_calls.h"
#include "wire/barrier.h"

#define TARGETS 2

static unsigned busy_calls;

static void count_busy(void *context)
{
    (void)context;
    busy_calls++;
}

static const struct server_user user = {.session = {.busy = count_busy}};
static struct heap_config config = {.sampling_interval_bytes = 1,
                                    .shmem_size_bytes = RING_DATA_BYTES_MIN};
static struct server server;
static struct session session;
static int trace_fd;

/* Make this process one more target of the session. */
static void add_own_target(void)
{
    struct process_info info;
    int memfd;
    assert_int_equal(0, process_info_read(&info, getpid()));
    struct target *target = target_open(&info, kernel_pidfd_open(getpid(), 0), RING_MEMFD_NAME,
                                        RING_DATA_BYTES_MIN, &config, &memfd);
    assert_non_null(target);
    session.targets[session.target_count++] = target;
    close(memfd);
}

static struct ring_reader *ring_of(int target)
{
    return &session.targets[target]->reader;
}

/* Write a record like a client. */
static void put_free(int target)
{
    struct ring_reader *reader = ring_of(target);
    uint64_t reserved = reader->control->reserved;
    struct record_free *record = (void *)(reader->data + (reserved & (RING_DATA_BYTES_MIN - 1)));
    record->address = 0x1000;
    record->ordinal = 1;
    record->header = (union record_header){.length = sizeof(*record), .type = RECORD_FREE};
    reader->control->reserved = reserved + sizeof(*record);
}

static void check_long_work_drains_all_rings(void)
{
    for (int i = 0; i < TARGETS; i++)
        put_free(i);
    session_drain(&session);
    for (int i = 0; i < TARGETS; i++)
        assert_true(ring_reader_is_empty(ring_of(i)));
    assert_int_equal(1, busy_calls);
}

static int begin_session(void **state)
{
    struct error error;
    (void)state;
    busy_calls = 0;
    trace_fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(0, server_open_without_socket(&server, &user, "", &error));
    assert_int_equal(0, session_open(&session, &config, false, SESSION_TRACE_FILE, trace_fd));
    server_begin_session(&server, &session);
    for (int i = 0; i < TARGETS; i++)
        add_own_target();
    return 0;
}

static int end_session(void **state)
{
    (void)state;
    server_remove_session(&server);
    session_close(&session);
    server_close(&server);
    close(trace_fd);
    return 0;
}

static void test_long_work_drains_all_rings(void **state)
{
    (void)state;
    check_long_work_drains_all_rings();
}

/* An ending session is no longer in the server, and its targets run until its last dump is
 * written. */
static void test_a_session_that_ends_drains_its_rings(void **state)
{
    (void)state;
    server_remove_session(&server);
    check_long_work_drains_all_rings();
}

/* For example, a wait for another process does not drain any ring. */
static void test_a_heartbeat_reaches_all_rings(void **state)
{
    (void)state;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    for (int i = 0; i < TARGETS; i++)
        store_relaxed(&ring_of(i)->control->heartbeat_ms, 0);
    while (load_relaxed(&ring_of(0)->control->heartbeat_ms) == 0)
        heartbeat_send();
    for (int i = 0; i < TARGETS; i++)
        assert_true(load_relaxed(&ring_of(i)->control->heartbeat_ms) >= now_ms);
}

/* A killed profiler leaves a profile of each process that it had for more than a second, however
 * long the session waited for its first one. */
static void test_first_checkpoint_does_not_wait_as_long_as_the_session(void **state)
{
    (void)state;
    struct checkpoints checkpoints;
    checkpoints_start(&checkpoints, 0);
    for (uint64_t now_ms = 1000; now_ms < 100000; now_ms += 1000) {
        assert_int_equal(now_ms, checkpoints.due_ms);
        checkpoints_put_off(&checkpoints, now_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_checkpoint_does_not_wait_as_long_as_the_session),
        cmocka_unit_test_setup_teardown(test_long_work_drains_all_rings, begin_session,
                                        end_session),
        cmocka_unit_test_setup_teardown(test_a_session_that_ends_drains_its_rings, begin_session,
                                        end_session),
        cmocka_unit_test_setup_teardown(test_a_heartbeat_reaches_all_rings, begin_session,
                                        end_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
