/* SPDX-License-Identifier: Apache-2.0 */
/* When the supervisor kills an ending session, and which shares it sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/server/attach_budget.h"
#include "recorder/service/supervisor.h"
#include "util/clock.h"

static struct supervisor supervisor = {.epoll = -1};
static struct supervised session;

/* Start a session that should end. Its process computes for this time, and then sleeps. */
static void begin(unsigned works_ms)
{
    uint64_t works_ns = works_ms * UINT64_C(1000000);
    int told[2], done[2];
    char byte = 0;
    assert_true(pipe(told) == 0 && pipe(done) == 0);
    session = (struct supervised){.pidfd = -1, .socket = -1, .client = -1, .end_ms = UINT64_MAX};
    session.pid = fork();
    if (session.pid == 0) {
        if (read(told[0], &byte, 1) != 1)
            _exit(1);
        uint64_t end_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) + works_ns;
        while (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) < end_ns)
            ;
        if (write(done[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    supervisor.sessions[0] = &session;
    supervisor.count = 1;
    supervisor_stop(&session, HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
    assert_int_equal(write(told[1], &byte, 1), 1);
    assert_int_equal(read(done[0], &byte, 1), 1);
    close(told[0]), close(told[1]);
    close(done[0]), close(done[1]);
}

static void check_killed(void)
{
    int status;
    assert_true(session.was_killed);
    assert_int_equal(waitpid(session.pid, &status, 0), session.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_sleeping_session_is_killed(void **state)
{
    (void)state;
    begin(0);
    supervisor_do_due(&supervisor, session.last_message_ms + SUPERVISOR_SILENCE_MS - 1);
    assert_false(session.was_killed);
    supervisor_do_due(&supervisor, session.last_message_ms + SUPERVISOR_SILENCE_MS);
    check_killed();
}

static void a_busy_session_is_not_killed(void **state)
{
    (void)state;
    begin(100);
    uint64_t silent_ms = session.last_message_ms + SUPERVISOR_SILENCE_MS;
    assert_int_equal(supervisor_do_due(&supervisor, silent_ms), silent_ms + SUPERVISOR_SILENCE_MS);
    assert_false(session.was_killed);
    /* The process has been asleep since. */
    supervisor_do_due(&supervisor, silent_ms + SUPERVISOR_SILENCE_MS);
    check_killed();
}

static void an_endless_session_is_killed(void **state)
{
    (void)state;
    begin(100);
    supervisor_do_due(&supervisor, session.end_ms + SUPERVISOR_END_MS);
    check_killed();
}

/* --- shares of the time for attempts to attach --- */

static void add_session(struct supervised *added, uid_t uid, int *end)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    *added = (struct supervised){
        .pidfd = -1, .client = -1, .socket = ends[0], .owner.uid = uid, .end_ms = UINT64_MAX};
    *end = ends[1];
    supervisor.sessions[supervisor.count++] = added;
    supervisor.shares_changed = true;
}

/* Return the received share, or 0 without a message. */
static uint32_t share_received(int end)
{
    struct session_wire_number number;
    if (recv(end, &number, sizeof(number), MSG_DONTWAIT) != sizeof(number))
        return 0;
    assert_int_equal(number.type, SESSION_WIRE_SHARE);
    return number.number;
}

static void shares_follow_users_and_sessions(void **state)
{
    static struct supervised sessions[3];
    int ends[3];
    (void)state;
    supervisor.count = 0;
    for (int i = 0; i < 3; i++)
        add_session(&sessions[i], i < 2 ? 1000 : 1001, &ends[i]);
    supervisor_do_due(&supervisor, 1);
    assert_int_equal(share_received(ends[0]), ATTACH_BUDGET_MACHINE_PPM / 4);
    assert_int_equal(share_received(ends[1]), ATTACH_BUDGET_MACHINE_PPM / 4);
    assert_int_equal(share_received(ends[2]), ATTACH_BUDGET_MACHINE_PPM / 2);
    supervisor.shares_changed = true;
    supervisor_do_due(&supervisor, 2);
    assert_int_equal(share_received(ends[0]) + share_received(ends[2]), 0);

    /* A full socket gets its message later. */
    supervisor.count = 2;
    supervisor.shares_changed = true;
    while (session_wire_send_number(sessions[0].socket, SESSION_WIRE_SHARE, 1, false) == 0)
        ;
    supervisor_do_due(&supervisor, 3);
    assert_int_equal(share_received(ends[1]), ATTACH_BUDGET_MACHINE_PPM / 2);
    while (share_received(ends[0]) == 1)
        ;
    supervisor_do_due(&supervisor, 4);
    assert_int_equal(share_received(ends[0]), ATTACH_BUDGET_MACHINE_PPM / 2);
    assert_false(supervisor.shares_changed);
    supervisor.count = 0;
    for (int i = 0; i < 3; i++)
        close(sessions[i].socket), close(ends[i]);
}

/* --- whether a session answers --- */

/* During long work a session says that it lives, but answers no hello. */
static void a_sign_of_life_is_no_turn(void **state)
{
    static const struct supervisor_user user;
    static struct rendezvous rendezvous = {.epoll = -1};
    static struct supervised busy;
    const uint32_t alive = SESSION_WIRE_ALIVE;
    int end;
    (void)state;
    supervisor.user = &user;
    supervisor.rendezvous = &rendezvous;
    supervisor.count = 0;
    add_session(&busy, 1000, &end);
    assert_int_equal(send(end, &alive, sizeof(alive), 0), sizeof(alive));
    assert_true(supervisor_serve(&supervisor, busy.socket));
    assert_int_not_equal(busy.last_message_ms, 0);
    assert_int_equal(busy.last_turn_ms, 0);
    assert_int_equal(session_wire_send_number(end, SESSION_WIRE_AWAITED, 0, false), 0);
    assert_true(supervisor_serve(&supervisor, busy.socket));
    assert_int_equal(busy.last_turn_ms, busy.last_message_ms);
    supervisor.count = 0;
    close(busy.socket), close(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleeping_session_is_killed),
        cmocka_unit_test(a_busy_session_is_not_killed),
        cmocka_unit_test(an_endless_session_is_killed),
        cmocka_unit_test(shares_follow_users_and_sessions),
        cmocka_unit_test(a_sign_of_life_is_no_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
