/* SPDX-License-Identifier: Apache-2.0 */
/* Which sessions are asked about a process that says hello. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/service/hello_routing.h"
#include "util/clock.h"

#define USER 1000u

static struct supervisor supervisor;
static struct rendezvous rendezvous = {.epoll = -1};
static struct hello_routing routing = {.supervisor = &supervisor, .rendezvous = &rendezvous};

/* Add a session that has sent a message before. Return its end of the socket. */
static int add_session(struct supervised *session, uid_t uid)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    *session = (struct supervised){.socket = ends[0],
                                   .owner.uid = uid,
                                   .order = supervisor.count + 1,
                                   .last_turn_ms = clock_read_ms(CLOCK_MONOTONIC) - 1};
    supervisor.sessions[supervisor.count++] = session;
    return ends[1];
}

static void end_session(struct supervised *session, int end)
{
    supervisor.count = 0;
    close(session->socket);
    close(end);
}

/* Say hello. Return whether a session is asked; if so, *peer is the process's connection. */
static bool is_asked(int *peer)
{
    const struct handshake_hello hello = {0};
    struct handshake_reply reply;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    bool asked = hello_routing_take(&routing, ends[0], 1, USER, &hello, &reply);
    if (!asked)
        close(ends[0]), close(ends[1]);
    *peer = asked ? ends[1] : -1;
    return asked;
}

static unsigned hellos_received(int end)
{
    struct session_wire_hello hello;
    unsigned count = 0;
    while (recv(end, &hello, sizeof(hello), MSG_DONTWAIT) == sizeof(hello))
        count += hello.type == SESSION_WIRE_HELLO;
    return count;
}

static enum handshake_verdict verdict_received(int peer)
{
    struct handshake_reply reply = {0};
    assert_int_equal(recv(peer, &reply, sizeof(reply), MSG_DONTWAIT), sizeof(reply));
    close(peer);
    return reply.verdict;
}

/* A session that is stopped, or waits in the kernel, delays one process, not each that begins. */
static void a_silent_session_is_not_asked_again(void **state)
{
    static struct supervised session;
    int peer, end = add_session(&session, USER);
    (void)state;
    assert_true(is_asked(&peer));
    hello_routing_do_due(&routing, routing.hellos[0].ask_ms - 1);
    assert_int_equal(routing.count, 1);
    hello_routing_do_due(&routing, routing.hellos[0].ask_ms);
    assert_int_equal(verdict_received(peer), HANDSHAKE_NOT_A_TARGET);
    assert_int_equal(hellos_received(end), 1);

    assert_false(is_asked(&peer));
    assert_int_equal(hellos_received(end), 0);

    /* A message from its event loop shows that it answers again. */
    session.last_turn_ms = clock_read_ms(CLOCK_MONOTONIC) + 1;
    assert_true(is_asked(&peer));
    assert_int_equal(hellos_received(end), 1);
    hello_routing_answer(&routing, &session, routing.last_ticket, 0);
    assert_int_equal(verdict_received(peer), HANDSHAKE_NOT_A_TARGET);
    end_session(&session, end);
}

/* It may only have been slow: it has sent other messages meanwhile. */
static void a_slow_session_is_asked_again(void **state)
{
    static struct supervised session;
    int peer, end = add_session(&session, USER);
    (void)state;
    assert_true(is_asked(&peer));
    session.last_turn_ms = clock_read_ms(CLOCK_MONOTONIC) + 1;
    hello_routing_do_due(&routing, routing.hellos[0].ask_ms);
    assert_int_equal(verdict_received(peer), HANDSHAKE_NOT_A_TARGET);
    assert_true(is_asked(&peer));
    hello_routing_answer(&routing, &session, routing.last_ticket, -1);
    assert_int_equal(verdict_received(peer), HANDSHAKE_NOT_A_TARGET);
    end_session(&session, end);
}

/* The next session is asked at once, and has the whole time. */
static void a_silent_session_is_passed_over(void **state)
{
    static struct supervised silent, next;
    int peer, end = add_session(&silent, 0), next_end = add_session(&next, USER);
    (void)state;
    assert_true(is_asked(&peer));
    hello_routing_do_due(&routing, routing.hellos[0].ask_ms);
    assert_int_equal(hellos_received(end), 1);
    assert_int_equal(hellos_received(next_end), 1);
    hello_routing_answer(&routing, &next, routing.last_ticket, 1);
    close(peer);

    assert_true(is_asked(&peer));
    assert_int_equal(hellos_received(end), 0);
    assert_int_equal(hellos_received(next_end), 1);
    assert_int_equal(routing.hellos[0].ask_ms, routing.hellos[0].end_ms);
    hello_routing_answer(&routing, &next, routing.last_ticket, 1);
    close(peer);
    end_session(&silent, end);
    end_session(&next, next_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_session_is_not_asked_again),
        cmocka_unit_test(a_slow_session_is_asked_again),
        cmocka_unit_test(a_silent_session_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
