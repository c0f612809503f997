/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the daemon's socket: the limit for each user, and timeouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/service/event_log.h"
#include "recorder/sockets/peer_socket.h"
#include "recorder/sockets/rendezvous.h"
#include "uint_in_range.h"
#include "util/clock.h"
#include "util/pass_descriptor.h"

/* Users other than the one that runs this test. */
#define ALICE (geteuid() + 1)
#define BOB (geteuid() + 2)
#define OTHERS (geteuid() + 3)

static void nobody_holds_more_than_a_quarter(void **state)
{
    static struct connection_shares shares;
    (void)state;
    connection_shares_init(&shares, 64);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(connection_shares_check(&shares, ALICE), CONNECTION_SHARE_FREE);
        connection_shares_take(&shares, ALICE);
    }
    assert_int_equal(connection_shares_check(&shares, ALICE), CONNECTION_SHARE_USED_UP);
    assert_int_equal(connection_shares_check(&shares, BOB), CONNECTION_SHARE_FREE);
    connection_shares_give_back(&shares, ALICE);
    assert_int_equal(connection_shares_check(&shares, ALICE), CONNECTION_SHARE_FREE);
    assert_int_equal(connection_shares_held(&shares, ALICE), 15);
    assert_int_equal(connection_shares_held(&shares, BOB), 0);
}

static void no_user_fills_the_log(void **state)
{
    static struct event_log log;
    unsigned left_out, written = 0;
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        written += event_log_has_room(&log, ALICE, 5, &left_out);
        assert_int_equal(left_out, 0);
        assert_true(event_log_has_room(&log, geteuid(), 5, &left_out));
    }
    assert_int_equal(written, EVENT_LOG_LINES);
    assert_true(event_log_has_room(&log, BOB, 5, &left_out));
    assert_false(event_log_has_room(&log, ALICE, 4 + EVENT_LOG_PERIOD_MS, &left_out));
    assert_true(event_log_has_room(&log, ALICE, 5 + EVENT_LOG_PERIOD_MS, &left_out));
    assert_int_equal(left_out, 1000 - EVENT_LOG_LINES + 1);
    assert_true(event_log_has_room(&log, ALICE, 6 + EVENT_LOG_PERIOD_MS, &left_out));
    assert_int_equal(left_out, 0);
    /* More users than places, and later all of them again. */
    for (unsigned i = 0; i < 2 * EVENT_LOG_USERS; i++)
        event_log_has_room(&log, OTHERS + i, 7, &left_out);
    for (unsigned i = 0; i < EVENT_LOG_USERS; i++)
        assert_true(
            event_log_has_room(&log, OTHERS + 1000 + i, 9 + 2 * EVENT_LOG_PERIOD_MS, &left_out));
}

static void an_eighth_is_reserved_for_root(void **state)
{
    static struct connection_shares shares;
    (void)state;
    connection_shares_init(&shares, 64);
    for (unsigned i = 0; i < 56; i++)
        connection_shares_take(&shares, OTHERS + i % 5);
    assert_int_equal(connection_shares_check(&shares, BOB), CONNECTION_SHARE_FULL);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(connection_shares_check(&shares, 0), CONNECTION_SHARE_FREE);
        connection_shares_take(&shares, 0);
    }
    assert_int_equal(connection_shares_check(&shares, 0), CONNECTION_SHARE_FULL);
}

static void each_user_is_served_in_turn(void **state)
{
    static struct connection_shares shares;
    (void)state;
    connection_shares_init(&shares, 64);
    connection_shares_take(&shares, ALICE);
    connection_shares_take(&shares, BOB);
    for (unsigned i = 0; i < CONNECTION_SHARES_SERVED_MAX; i++)
        assert_true(connection_shares_serve(&shares, ALICE));
    assert_false(connection_shares_serve(&shares, ALICE));
    assert_true(connection_shares_serve(&shares, BOB));
    connection_shares_begin_turn(&shares);
    assert_true(connection_shares_serve(&shares, ALICE));
}

/* --- over a socket --- */

struct served {
    struct rendezvous rendezvous;
    int requests[4];
    unsigned count;
};

static int answer_hello(void *context, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply,
                        int *memfd)
{
    (void)context, (void)fd, (void)pid, (void)uid, (void)hello, (void)reply, (void)memfd;
    return -EPERM;
}

static void take_request(void *context, int fd, const struct peer_message *message)
{
    struct served *served = context;
    assert_true(message->length >= sizeof(struct request_header));
    peer_socket_skip(fd);
    served->requests[served->count++] = fd;
}

static int connect_to(const struct rendezvous *rendezvous)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, rendezvous->path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int connect_and_ask(const struct rendezvous *rendezvous)
{
    const struct request_header request = {REQUEST_MAGIC, REQUEST_VERSION};
    int fd = connect_to(rendezvous);
    assert_int_equal(send(fd, &request, sizeof(request), 0), sizeof(request));
    return fd;
}

static bool is_open(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
}

static void idle_connections_end(void **state)
{
    static struct served served;
    struct rendezvous *rendezvous = &served.rendezvous;
    struct error error = {0};
    (void)state;
    rendezvous->listener = rendezvous->spare = -1;
    rendezvous->user = (struct rendezvous_user){answer_hello, take_request, &served};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(rendezvous_open(rendezvous, epoll, NULL, -1, &error), 0);
    int silent = connect_to(rendezvous), resting = connect_and_ask(rendezvous),
        held = connect_and_ask(rendezvous);
    rendezvous_serve(rendezvous, rendezvous->listener);
    assert_int_equal(rendezvous_expire(rendezvous, 1), 1);
    rendezvous_begin_turn(rendezvous);
    assert_int_equal(served.count, 2);
    rendezvous_hold(rendezvous, served.requests[1]);

    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    rendezvous_expire(rendezvous, now_ms + RENDEZVOUS_PATIENCE_MS / 2);
    assert_true(is_open(silent) && is_open(resting) && is_open(held));
    rendezvous_expire(rendezvous, now_ms + RENDEZVOUS_PATIENCE_MS + 1000);
    assert_true(!is_open(silent) && is_open(resting) && is_open(held));
    rendezvous_expire(rendezvous, now_ms + RENDEZVOUS_IDLE_MS + 1000);
    assert_true(!is_open(resting) && is_open(held));
    /* The server of the request is notified. */
    assert_false(is_open(served.requests[0]));
    rendezvous_end_connection(rendezvous, served.requests[0]);
    assert_int_equal(connection_shares_held(&rendezvous->shares, geteuid()), 1);
    rendezvous_set_idle(rendezvous, served.requests[1]);
    rendezvous_expire(rendezvous, now_ms + 2 * RENDEZVOUS_IDLE_MS + 2000);
    assert_false(is_open(held));

    rendezvous_close(rendezvous);
    close(silent), close(resting), close(held), close(epoll);
}

/* Return a connection with an unread message that has a descriptor: only a child may close it. */
static int connection_with_a_descriptor(int *peer)
{
    int ends[2];
    char byte = 0;
    const struct iovec part = {&byte, 1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(pass_descriptor(ends[1], &part, 1, ends[1], 0), 1);
    *peer = ends[1];
    return ends[0];
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void await_children(struct peer_sockets *sockets)
{
    bool has_child = true;
    for (int i = 0; i < 1000 && has_child; i++) {
        usleep(10000);
        has_child =
            peer_sockets_expire(sockets, clock_read_ms(CLOCK_MONOTONIC) + 60000) != UINT64_MAX;
    }
    assert_false(has_child);
}

#define ENDING_CONNECTIONS 600

/* While strangers' descriptors keep all children from ending, connections cost no descriptor of the
 * daemon, and it goes on to accept others. */
static void connections_are_parked_without_a_child(void **state)
{
    static struct peer_sockets sockets;
    static int peers[ENDING_CONNECTIONS];
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    unsigned before = count_descriptors();
    (void)state;
    /* An ordinary user may have as many descriptors in messages as open ones, all processes
     * together: other tests could not pass theirs. */
    if (geteuid() != 0)
        skip();
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++)
        sockets.children[i] = start_sleeper();
    for (unsigned i = 0; i < ENDING_CONNECTIONS; i++) {
        assert_false(peer_sockets_are_full(&sockets));
        peer_sockets_close(&sockets, connection_with_a_descriptor(&peers[i]));
        peer_sockets_expire(&sockets, now_ms + 60000);
    }
    assert_false(peer_sockets_are_full(&sockets));
    assert_uint_in_range(count_descriptors() - before - ENDING_CONNECTIONS, 1,
                         PEER_SOCKETS_PARKED_AT_ONCE + 2 * PEER_SOCKETS_QUEUES_MAX);
    for (unsigned i = 0; i < ENDING_CONNECTIONS; i++)
        assert_true(is_open(peers[i]));
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++)
        kill(sockets.children[i], SIGKILL);
    await_children(&sockets);
    for (unsigned i = 0; i < ENDING_CONNECTIONS; i++) {
        assert_false(is_open(peers[i]));
        close(peers[i]);
    }
    peer_sockets_clear(&sockets);
    assert_int_equal(before, count_descriptors());
}

/* The daemon's end does not wait for them either. */
static void the_end_needs_no_free_child(void **state)
{
    static struct peer_sockets sockets;
    pid_t sleepers[PEER_SOCKETS_CHILDREN_MAX];
    int peer;
    (void)state;
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++)
        sockets.children[i] = sleepers[i] = start_sleeper();
    peer_sockets_close(&sockets, connection_with_a_descriptor(&peer));
    assert_true(is_open(peer));
    peer_sockets_clear(&sockets);
    for (int i = 0; i < 1000 && is_open(peer); i++)
        usleep(10000);
    assert_false(is_open(peer));
    close(peer);
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        kill(sleepers[i], SIGKILL);
        waitpid(sleepers[i], NULL, 0);
    }
}

/* The kernel reports the unread answers once as ECONNRESET, before the peer's own messages. */
static void a_peer_that_left_answers_unread_is_still_heard(void **state)
{
    struct peer_message message;
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(write(ends[0], "unread", 6), 6);
    assert_int_equal(write(ends[1], "first", 5), 5);
    assert_int_equal(write(ends[1], "second", 6), 6);
    close(ends[1]);
    assert_int_equal(peer_socket_peek(ends[0], &message), 5);
    peer_socket_skip(ends[0]);
    assert_int_equal(peer_socket_peek(ends[0], &message), 6);
    assert_memory_equal(message.bytes, "second", 6);
    peer_socket_skip(ends[0]);
    assert_int_equal(peer_socket_peek(ends[0], &message), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_left_answers_unread_is_still_heard),
        cmocka_unit_test(nobody_holds_more_than_a_quarter),
        cmocka_unit_test(no_user_fills_the_log),
        cmocka_unit_test(an_eighth_is_reserved_for_root),
        cmocka_unit_test(each_user_is_served_in_turn),
        cmocka_unit_test(idle_connections_end),
        cmocka_unit_test(connections_are_parked_without_a_child),
        cmocka_unit_test(the_end_needs_no_free_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
