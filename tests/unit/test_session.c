/* SPDX-License-Identifier: Apache-2.0 */
/* How a session treats the rings of its targets and of other sessions during long work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/server/server.h"
#include "daemon/session/session_state.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "wire/barrier.h"

#define SESSIONS 2

static unsigned busy_calls;

static void count_busy(void *context)
{
    (void)context;
    busy_calls++;
}

static const struct server_user user = {.busy = count_busy};
static struct heap_config config = {.sampling_interval_bytes = 1,
                                    .shmem_size_bytes = RING_DATA_BYTES_MIN};
static struct server server;
static struct session sessions[SESSIONS];
static int trace_fd;

/* Make this process a target of the session. */
static void add_own_target(struct session *session)
{
    struct process_info info;
    int memfd;
    assert_int_equal(0, process_info_read(&info, getpid()));
    session->targets[0] = target_open(&info, pidfd_open(getpid(), 0), RING_MEMFD_NAME,
                                      RING_DATA_BYTES_MIN, &config, &memfd);
    assert_non_null(session->targets[0]);
    session->target_count = 1;
    close(memfd);
}

static struct ring_reader *ring_of(struct session *session)
{
    return &session->targets[0]->reader;
}

/* Write a record like a client. */
static void put_free(struct session *session)
{
    struct ring_reader *reader = ring_of(session);
    uint64_t reserved = reader->control->reserved;
    struct record_free *record = (void *)(reader->data + (reserved & (RING_DATA_BYTES_MIN - 1)));
    record->address = 0x1000;
    record->ordinal = 1;
    record->header = (union record_header){.length = sizeof(*record), .type = RECORD_FREE};
    reader->control->reserved = reserved + sizeof(*record);
}

static bool is_drained(struct session *session)
{
    return ring_reader_is_empty(ring_of(session));
}

static int open_sessions(void **state)
{
    struct error error;
    (void)state;
    busy_calls = 0;
    trace_fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(0, server_open_without_socket(&server, &user, "", &error));
    for (int i = 0; i < SESSIONS; i++) {
        assert_int_equal(0, session_open(&sessions[i], &config, false, trace_fd));
        assert_int_equal(0, server_add_session(&server, &sessions[i]));
        add_own_target(&sessions[i]);
    }
    return 0;
}

static int close_sessions(void **state)
{
    (void)state;
    while (server.session_count > 0)
        server_remove_session(&server, server.sessions[0]);
    for (int i = 0; i < SESSIONS; i++)
        session_close(&sessions[i]);
    server_close(&server);
    close(trace_fd);
    return 0;
}

static void test_long_work_drains_all_sessions(void **state)
{
    (void)state;
    for (int i = 0; i < SESSIONS; i++)
        put_free(&sessions[i]);
    session_drain_all(&sessions[0]);
    for (int i = 0; i < SESSIONS; i++)
        assert_true(is_drained(&sessions[i]));
    assert_int_equal(1, busy_calls);
}

/* An ending session is no longer in the server, and its targets run until its last dump is
 * written. */
static void test_a_session_that_ends_drains_its_own_rings(void **state)
{
    (void)state;
    server_remove_session(&server, &sessions[0]);
    for (int i = 0; i < SESSIONS; i++)
        put_free(&sessions[i]);
    session_drain_all(&sessions[0]);
    for (int i = 0; i < SESSIONS; i++)
        assert_true(is_drained(&sessions[i]));
    assert_int_equal(1, busy_calls);
}

/* For example, a wait for another process does not drain any ring. */
static void test_a_heartbeat_reaches_all_rings(void **state)
{
    (void)state;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    for (int i = 0; i < SESSIONS; i++)
        store_relaxed(&ring_of(&sessions[i])->control->heartbeat_ms, 0);
    while (load_relaxed(&ring_of(&sessions[0])->control->heartbeat_ms) == 0)
        heartbeat_give();
    for (int i = 0; i < SESSIONS; i++)
        assert_true(load_relaxed(&ring_of(&sessions[i])->control->heartbeat_ms) >= now_ms);
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
        cmocka_unit_test_setup_teardown(test_long_work_drains_all_sessions, open_sessions,
                                        close_sessions),
        cmocka_unit_test_setup_teardown(test_a_session_that_ends_drains_its_own_rings,
                                        open_sessions, close_sessions),
        cmocka_unit_test_setup_teardown(test_a_heartbeat_reaches_all_rings, open_sessions,
                                        close_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
