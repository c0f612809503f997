/* SPDX-License-Identifier: Apache-2.0 */
/* Route messages: requests to sessions, hellos to hello_routing, and results to clients. */
#include "recorder/service/control.h"

#include <control.pb-c.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/processes/exec_events.h"
#include "util/clock.h"
#include "util/event_loop.h"

#define EVENTS_AT_ONCE 64

/* Time that sessions have for a snapshot. The answer counts those that took longer. */
#define SNAPSHOT_MS 10000
/* Longer than the supervisor allows a session to take to end. */
#define STOP_MS (SUPERVISOR_END_MS + 2000)

int control_watch(const struct control *control, int fd)
{
    return event_loop_watch(control->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
}

/* --- snapshot and stop, which wait for sessions --- */

static void control_answer(struct control *control, struct control_connection *connection)
{
    char message[160];
    if (connection->failed > 0) {
        snprintf(message, sizeof(message),
                 connection->stops
                     ? "%u of %u sessions did not end in time and were killed: their traces are "
                       "incomplete"
                     : "%u of %u sessions did not take a dump in time: they do not answer",
                 connection->failed, connection->reached);
        control_send_error(connection->fd, -ETIMEDOUT, message);
    } else {
        control_send_count(connection->fd, connection->reached);
    }
    connection->awaited_count = 0;
    connection->end_ms = UINT64_MAX;
    rendezvous_set_idle(&control->rendezvous, connection->fd);
    event_loop_watch(control->epoll, EPOLL_CTL_MOD, connection->fd, EPOLLIN);
}

/* Stop waiting for a session: it has done its work, or never will. */
static void strike_off(struct control *control, struct control_connection *connection,
                       const struct supervised *session, bool failed)
{
    for (size_t i = 0; i < connection->awaited_count; i++) {
        if (connection->awaited[i] != session->order)
            continue;
        connection->awaited[i] = connection->awaited[--connection->awaited_count];
        connection->failed += failed;
        if (connection->awaited_count == 0)
            control_answer(control, connection);
        return;
    }
}

static void handle_dumped(void *context, struct supervised *session, uint32_t ticket)
{
    struct control *control = context;
    for (size_t i = 0; i < control->connection_count; i++) {
        struct control_connection *connection = &control->connections[i];
        if (connection->ticket == ticket && !connection->stops)
            strike_off(control, connection, session, false);
    }
}

static void handle_ended(void *context, struct supervised *session)
{
    struct control *control = context;
    for (size_t i = 0; i < control->connection_count; i++) {
        struct control_connection *connection = &control->connections[i];
        strike_off(control, connection, session, session->was_killed && !session->is_over);
    }
}

static void handle_answered(void *context, struct supervised *session, uint32_t ticket, int verdict)
{
    struct control *control = context;
    hello_routing_answer(&control->hellos, session, ticket, verdict);
}

static void handle_leaving(void *context, struct supervised *session)
{
    struct control *control = context;
    hello_routing_skip_session(&control->hellos, session);
}

static void ask_sessions(struct control *control, struct control_connection *connection,
                         const Heapprofd__ControlRequest__Session *wanted, bool stops)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    connection->stops = stops;
    connection->ticket = ++control->last_ticket;
    connection->reached = connection->failed = 0;
    connection->end_ms = now_ms + (stops ? STOP_MS : SNAPSHOT_MS);
    for (size_t i = 0; i < control->supervisor.count; i++) {
        struct supervised *session = control->supervisor.sessions[i];
        if ((wanted->has_id && wanted->id != session->id) ||
            !supervisor_reaches(&connection->requester, session))
            continue;
        connection->reached++;
        if (supervisor_is_stuck(session)) {
            connection->failed++;
            continue;
        }
        if (stops)
            supervisor_stop(session, HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
        else if (supervisor_snapshot(session, connection->ticket) < 0) {
            connection->failed++;
            continue;
        }
        connection->awaited[connection->awaited_count++] = session->order;
    }
    /* Its later requests wait. */
    event_loop_watch(control->epoll, EPOLL_CTL_MOD, connection->fd, 0);
    rendezvous_hold(&control->rendezvous, connection->fd);
    if (!stops)
        event_log_write(&control->log, connection->requester.uid,
                        "snapshot of %u sessions for uid %u", connection->reached,
                        (unsigned)connection->requester.uid);
    if (connection->awaited_count == 0)
        control_answer(control, connection);
}

/* Answer connections that have waited long enough. Return when more is due. */
static uint64_t answer_due(struct control *control, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < control->connection_count; i++) {
        struct control_connection *connection = &control->connections[i];
        if (connection->awaited_count > 0 && connection->end_ms <= now_ms) {
            connection->failed += (unsigned)connection->awaited_count;
            control_answer(control, connection);
        }
        if (connection->awaited_count > 0)
            next_ms = clock_earlier(next_ms, connection->end_ms);
    }
    return next_ms;
}

/* --- connections --- */

static void remove_connection(struct control *control, struct control_connection *connection)
{
    *connection = control->connections[--control->connection_count];
}

static void drop_connection(struct control *control, struct control_connection *connection)
{
    rendezvous_end_connection(&control->rendezvous, connection->fd);
    remove_connection(control, connection);
}

/* Start a session. The message stays in the connection, which now belongs to the session: so the
 * daemon never holds the trace's descriptor, whose last close may block. */
static bool start_session(struct control *control, struct control_connection *connection,
                          const Heapprofd__ControlRequest__Start *start)
{
    struct error error = {0};
    const struct supervisor_request request = {
        .requester = connection->requester,
        .pid = connection->pid,
        .client = connection->fd,
        .start = start,
        .policy = &control->policy,
        .socket_path = control->socket_path,
    };
    if (supervisor_start(&control->supervisor, &request, &error) != NULL) {
        rendezvous_hold(&control->rendezvous, connection->fd);
        remove_connection(control, connection);
        return true;
    }
    control_send_error(connection->fd, error.code, error.message);
    event_log_write(&control->log, connection->requester.uid,
                    "session refused to uid %u, process %d: %s",
                    (unsigned)connection->requester.uid, (int)connection->pid, error.message);
    return false;
}

/* Serve a request. Return false if the connection should end, whatever is left in it. */
static bool serve_request(struct control *control, struct control_connection *connection,
                          const struct peer_message *message,
                          const Heapprofd__ControlRequest *request)
{
    if (request != NULL && request->start != NULL && message->has_descriptors)
        return start_session(control, connection, request->start);
    if (message->has_descriptors) {
        control_send_error(connection->fd, -EINVAL,
                           "a file was passed with a request that takes none");
        return false;
    }
    peer_socket_skip(connection->fd);
    rendezvous_set_idle(&control->rendezvous, connection->fd);
    if (request == NULL)
        control_send_error(
            connection->fd, -EPROTO,
            "the daemon does not understand this request: is it of another version?");
    else if (request->start != NULL)
        control_send_error(connection->fd, -EINVAL,
                           "the trace must be a regular file, opened for writing");
    else if (request->snapshot != NULL)
        ask_sessions(control, connection, request->snapshot, false);
    else if (request->stop != NULL)
        ask_sessions(control, connection, request->stop, true);
    else if (request->status)
        supervisor_send_status(&control->supervisor, connection->fd, &connection->requester,
                               &control->self);
    else
        control_send_error(connection->fd, -EINVAL, "the request asks for nothing");
    return true;
}

static bool handle_message(struct control *control, struct control_connection *connection,
                           const struct peer_message *message)
{
    Heapprofd__ControlRequest *request = control_read_request(message->bytes, message->length);
    bool goes_on = serve_request(control, connection, message, request);
    heapprofd__control_request__free_unpacked(request, NULL);
    return goes_on;
}

static void handle_request(void *context, int fd, const struct peer_message *message)
{
    struct control *control = context;
    struct control_connection connection = {.fd = fd, .end_ms = UINT64_MAX};
    if (control->connection_count == CONTROL_CONNECTIONS_MAX ||
        access_peer(fd, &connection.requester, &connection.pid) < 0 ||
        control_watch(control, fd) < 0) {
        control_send_error(fd, -EMFILE, "the daemon has too many connections: try again");
        rendezvous_end_connection(&control->rendezvous, fd);
        return;
    }
    struct control_connection *added = &control->connections[control->connection_count++];
    *added = connection;
    if (!handle_message(control, added, message))
        drop_connection(control, added);
}

/* Return false if the connection has ended or should end. */
static bool read_connection(struct control *control, struct control_connection *connection)
{
    struct peer_message message;
    /* A connection that waits for an answer reports only its end. */
    if (connection->awaited_count > 0)
        return false;
    if (!rendezvous_is_in_turn(&control->rendezvous, connection->fd))
        return true;
    ssize_t got = peer_socket_peek(connection->fd, &message);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    return got > 0 && handle_message(control, connection, &message);
}

static bool serve_connection(struct control *control, int fd)
{
    for (size_t i = 0; i < control->connection_count; i++) {
        if (control->connections[i].fd != fd)
            continue;
        if (!read_connection(control, &control->connections[i]))
            drop_connection(control, &control->connections[i]);
        return true;
    }
    return false;
}

static int handle_hello(void *context, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply,
                        int *memfd)
{
    struct control *control = context;
    (void)memfd;
    if (!handshake_hello_is_sound(hello) || pid <= 0)
        return -EPROTO;
    return hello_routing_take(&control->hellos, fd, pid, uid, hello, reply) ? RENDEZVOUS_TAKEN_OVER
                                                                            : 0;
}

/* --- life of the daemon --- */

static void find_socket_path(struct control *control)
{
    if (control->rendezvous.path[0] != 0)
        snprintf(control->socket_path, sizeof(control->socket_path), "%s",
                 control->rendezvous.path);
    else
        snprintf(control->socket_path, sizeof(control->socket_path), "%s/" RUN_DIRECTORY_SOCKET,
                 control->directory.path);
}

int control_open(struct control *control, const char *path, int listener, struct error *error)
{
    control->directory = (struct run_directory){.lock = -1};
    control->rendezvous.listener = control->rendezvous.spare = -1;
    control->rendezvous.user = (struct rendezvous_user){handle_hello, handle_request, control};
    control->connection_count = 0;
    control->wake_ms = UINT64_MAX;
    control->supervisor_user = (struct supervisor_user){
        .answered = handle_answered,
        .dumped = handle_dumped,
        .leaving = handle_leaving,
        .ended = handle_ended,
        .context = control,
    };
    control->epoll = epoll_create1(EPOLL_CLOEXEC);
    int code = control->epoll < 0
                   ? error_set(error, -errno, "cannot set up the event loop: %s", strerror(errno))
                   : 0;
    if (code == 0)
        code = access_policy_read(&control->policy, ACCESS_POLICY_PATH, error);
    if (code == 0 && path != NULL)
        code = run_directory_open(&control->directory, path, listener >= 0, error);
    if (code == 0)
        code = rendezvous_open(&control->rendezvous, control->epoll, path, listener, error);
    control->supervisor = (struct supervisor){
        .user = &control->supervisor_user,
        .log = &control->log,
        .epoll = control->epoll,
        .directory = &control->directory,
        .policy = &control->policy,
        .rendezvous = &control->rendezvous,
    };
    control->hellos.supervisor = &control->supervisor;
    control->hellos.rendezvous = &control->rendezvous;
    find_socket_path(control);
    control->self = (struct control_status_profiler){
        .socket_path = control->socket_path,
        .start_ms = clock_read_ms(CLOCK_MONOTONIC),
        .has_exec_events = exec_events_are_there(&control->no_exec_events),
        .why_not = control->no_exec_events.message,
    };
    if (code < 0)
        control_close(control);
    return code;
}

void control_close(struct control *control)
{
    supervisor_close(&control->supervisor);
    hello_routing_close(&control->hellos);
    while (control->connection_count > 0)
        drop_connection(control, &control->connections[control->connection_count - 1]);
    rendezvous_close(&control->rendezvous);
    run_directory_close(&control->directory);
    access_policy_clear(&control->policy);
    if (control->epoll >= 0)
        close(control->epoll);
    control->epoll = -1;
}

/* Do what is due. Return the time until something will be due in ms; -1: never. */
static int do_due(struct control *control)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    uint64_t next_ms = clock_earlier(control->wake_ms, answer_due(control, now_ms));
    next_ms = clock_earlier(next_ms, rendezvous_expire(&control->rendezvous, now_ms));
    next_ms = clock_earlier(next_ms, supervisor_do_due(&control->supervisor, now_ms));
    next_ms = clock_earlier(next_ms, hello_routing_do_due(&control->hellos, now_ms));
    return event_loop_timeout(now_ms, next_ms);
}

void control_step(struct control *control)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(control->epoll, events, EVENTS_AT_ONCE, do_due(control));
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        if (!rendezvous_serve(&control->rendezvous, fd) &&
            !supervisor_serve(&control->supervisor, fd) && !serve_connection(control, fd) &&
            control->readable != NULL)
            control->readable(control->context, fd);
    }
    rendezvous_begin_turn(&control->rendezvous);
}

int control_reload(struct control *control, struct error *error)
{
    struct access_policy policy;
    size_t length;
    int code = access_policy_read(&policy, ACCESS_POLICY_PATH, error);
    if (code < 0)
        return code;
    void *packed = access_policy_pack(&policy, &length);
    if (packed == NULL) {
        access_policy_clear(&policy);
        return error_set(error, -E2BIG,
                         "%s: never_profile has more than %zu bytes, which only a restart takes",
                         ACCESS_POLICY_PATH, ACCESS_POLICY_PACKED_MAX);
    }
    free(packed);
    access_policy_clear(&control->policy);
    control->policy = policy;
    supervisor_pass_policy(&control->supervisor);
    return 0;
}

void control_snapshot_all(struct control *control)
{
    for (size_t i = 0; i < control->supervisor.count; i++)
        supervisor_snapshot(control->supervisor.sessions[i], 0);
    event_log_write(&control->log, geteuid(), "snapshot of %zu sessions on a signal",
                    control->supervisor.count);
}
