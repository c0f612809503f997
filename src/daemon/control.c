/* See control.h. */
#include "daemon/control.h"

#include <control.pb-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/control_status.h"

#define PROGRESS_PERIOD_MS 250

/* More messages would fill the socket before the peer reads, and later ones would be lost. */
#define REFUSED_MAX 32

__attribute__((format(printf, 2, 3))) static void tell(const struct control *control,
                                                       const char *format, ...)
{
    char line[512];
    va_list arguments;
    if (control->log == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    control->log(line);
}

/* --- sessions --- */

static struct control_connection *find_connection(struct control *control,
                                                  const struct session *session)
{
    for (size_t i = 0; i < control->connection_count; i++) {
        if (control->connections[i].session == session)
            return &control->connections[i];
    }
    return NULL;
}

/* Ends the connection's session; its trace is whole when the peer is told. */
static void end_session(struct control *control, struct control_connection *connection,
                        Heapprofd__ControlReply__End__Reason reason)
{
    struct session *session = connection->session;
    Heapprofd__ControlReply__End end = HEAPPROFD__CONTROL_REPLY__END__INIT;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    end.has_reason = end.has_profiled = end.has_absent = true;
    end.reason = reason;
    reply.has_session_id = true;
    reply.session_id = session->id;
    rendezvous_rest(&control->station.server.rendezvous, connection->fd);
    connection->session = NULL;
    struct station_outcome outcome;
    control->in_passage = connection;
    int code = station_finish(&control->station, session, &outcome);
    control->in_passage = NULL;
    end.profiled = outcome.profiled;
    end.absent = outcome.absent;
    close(connection->trace_fd);
    connection->trace_fd = -1;
    tell(control, "session %llu ended: %u processes, %llu samples, %llu lost%s%s",
         (unsigned long long)reply.session_id, outcome.profiled,
         (unsigned long long)outcome.samples, (unsigned long long)outcome.lost,
         code < 0 ? ", trace not whole: " : "", code < 0 ? strerror(-code) : "");
    if (code < 0) {
        char message[256];
        snprintf(message, sizeof(message), "cannot write the trace: %s", strerror(-code));
        control_send_error(connection->fd, code, message);
        return;
    }
    reply.end = &end;
    control_send_reply(connection->fd, &reply);
}

static Heapprofd__ControlReply__End__Reason reason_of(enum session_end over)
{
    switch (over) {
    case SESSION_OVER_GUARDRAIL:
        return HEAPPROFD__CONTROL_REPLY__END__REASON__GUARDRAIL;
    case SESSION_OVER_ENDED:
        return HEAPPROFD__CONTROL_REPLY__END__REASON__PROCESSES_ENDED;
    default:
        return HEAPPROFD__CONTROL_REPLY__END__REASON__DURATION;
    }
}

static void handle_session_over(void *context, struct session *session)
{
    struct control *control = context;
    struct control_connection *connection = find_connection(control, session);
    if (connection != NULL)
        end_session(control, connection, reason_of(session->over));
}

static void handle_refused(void *context, struct session *session, const struct process_info *info,
                           const char *remark)
{
    struct control *control = context;
    struct control_connection *connection = find_connection(control, session);
    if (connection == NULL)
        connection = control->in_passage;
    if (connection == NULL || connection->refused == REFUSED_MAX)
        return;
    connection->refused++;
    Heapprofd__ControlReply__Refused refused = HEAPPROFD__CONTROL_REPLY__REFUSED__INIT;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    refused.has_pid = true;
    refused.pid = info->pid;
    refused.name = (char *)process_info_name(info);
    refused.reason = (char *)remark;
    reply.refused = &refused;
    control_send_reply(connection->fd, &reply);
}

static void handle_progress(void *context, struct session *session, uint64_t now_ms)
{
    struct control *control = context;
    struct control_connection *connection = find_connection(control, session);
    station_invite(&control->station);
    if (connection == NULL || !connection->wants_progress || now_ms < connection->progress_ms)
        return;
    connection->progress_ms = now_ms + PROGRESS_PERIOD_MS;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    Heapprofd__ControlSession progress;
    control_status_fill_session(&progress, session, now_ms);
    reply.progress = &progress;
    control_send_reply(connection->fd, &reply);
}

static unsigned sessions_of(const struct control *control, uid_t uid)
{
    unsigned count = 0;
    for (size_t i = 0; i < control->connection_count; i++)
        count +=
            control->connections[i].session != NULL && control->connections[i].requester.uid == uid;
    return count;
}

/* A pipe or socket could keep the daemon waiting for its reader. */
static int check_trace_fd(int fd, struct error *error)
{
    struct stat status;
    if (fd == -E2BIG)
        return error_set(error, -EINVAL,
                         "one file is taken with a request, the trace, not several");
    if (fd == -EMFILE)
        return error_set(error, fd, "the daemon has no file descriptor left for the trace");
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &status) < 0 ||
        !S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "the trace must be a regular file, opened for writing");
    return 0;
}

/* Takes over trace_fd. */
static void start_session(struct control *control, struct control_connection *connection,
                          const Heapprofd__ControlRequest__Start *start, int trace_fd)
{
    struct heap_config config;
    struct error error = {0};
    int code = check_trace_fd(trace_fd, &error);
    if (code == 0 && connection->session != NULL)
        code = error_set(&error, -EBUSY, "this connection has a session already");
    if (code == 0 && !connection->requester.may_all &&
        sessions_of(control, connection->requester.uid) >= CONTROL_SESSIONS_OF_A_USER_MAX)
        code = error_set(&error, -EMFILE, "you have %d sessions already: end one",
                         CONTROL_SESSIONS_OF_A_USER_MAX);
    if (code == 0) {
        code = heap_config_read_binary(start->trace_config.data, start->trace_config.len, &config,
                                       NULL, &error);
        if (code == 0 && (code = heap_config_check_targets(&config, &error)) < 0)
            heap_config_clear(&config);
    }
    struct session *session = NULL;
    connection->refused = 0;
    control->in_passage = connection;
    if (code == 0)
        session = station_start(&control->station, &config, start->follow_children,
                                &connection->requester, trace_fd, &error);
    control->in_passage = NULL;
    if (session == NULL) {
        if (trace_fd >= 0)
            close(trace_fd);
        control_send_error(connection->fd, error.code, error.message);
        tell(control, "session refused to uid %u, process %d: %s",
             (unsigned)connection->requester.uid, (int)connection->pid, error.message);
        return;
    }
    rendezvous_hold(&control->station.server.rendezvous, connection->fd);
    connection->session = session;
    connection->trace_fd = trace_fd;
    connection->wants_progress = start->progress;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    reply.has_session_id = true;
    reply.session_id = session->id;
    if (session->over == SESSION_GOES_ON)
        control_send_reply(connection->fd, &reply);
    tell(control, "session %llu began: uid %u, process %d, interval %llu",
         (unsigned long long)session->id, (unsigned)connection->requester.uid, (int)connection->pid,
         (unsigned long long)session->config->sampling_interval_bytes);
    if (session->over != SESSION_GOES_ON)
        end_session(control, connection, reason_of(session->over));
}

/* Whether the request of this connection reaches that session. */
static bool reaches(const struct control_connection *connection,
                    const Heapprofd__ControlRequest__Session *wanted, const struct session *session)
{
    if (wanted->has_id && wanted->id != session->id)
        return false;
    return connection->requester.may_all || connection->requester.uid == session->owner.uid;
}

static void handle_snapshot(struct control *control, const struct control_connection *connection,
                            const Heapprofd__ControlRequest__Session *wanted)
{
    unsigned count = 0;
    for (size_t i = 0; i < control->station.server.session_count; i++) {
        struct session *session = control->station.server.sessions[i];
        if (!reaches(connection, wanted, session))
            continue;
        session_dump(session);
        count++;
    }
    tell(control, "snapshot of %u sessions for uid %u", count, (unsigned)connection->requester.uid);
    control_send_count(connection->fd, count);
}

static void handle_stop(struct control *control, const struct control_connection *connection,
                        const Heapprofd__ControlRequest__Session *wanted)
{
    unsigned count = 0;
    for (size_t i = 0; i < control->connection_count; i++) {
        struct control_connection *other = &control->connections[i];
        if (other->session == NULL || !reaches(connection, wanted, other->session))
            continue;
        end_session(control, other, HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
        count++;
    }
    control_send_count(connection->fd, count);
}

/* --- connections --- */

/* Take the message from the connection. False: it has descriptors that nobody asked for, and the
 * connection is to end with them in it. */
static bool take_message(struct rendezvous *rendezvous, const struct control_connection *connection,
                         const struct peer_message *message,
                         const Heapprofd__ControlRequest *request, int *passed_fd)
{
    *passed_fd = -1;
    if (request != NULL && request->start != NULL) {
        *passed_fd = peer_socket_take_descriptor(connection->fd);
        return true;
    }
    if (message->has_descriptors) {
        control_send_error(connection->fd, -EINVAL,
                           "a file was passed with a request that takes none");
        return false;
    }
    peer_socket_skip(connection->fd);
    if (connection->session == NULL)
        rendezvous_rest(rendezvous, connection->fd);
    return true;
}

/* False: the connection is to end. */
static bool handle_message(struct control *control, struct control_connection *connection,
                           const struct peer_message *message)
{
    int passed_fd;
    Heapprofd__ControlRequest *request = control_read_request(message->bytes, message->length);
    bool goes_on =
        take_message(&control->station.server.rendezvous, connection, message, request, &passed_fd);
    if (!goes_on) {
        /* It has its error. */
    } else if (request == NULL) {
        control_send_error(connection->fd, -EPROTO,
                   "the daemon does not understand this request: is it of another version?");
    } else if (request->start != NULL) {
        start_session(control, connection, request->start, passed_fd);
    } else if (request->snapshot != NULL) {
        handle_snapshot(control, connection, request->snapshot);
    } else if (request->stop != NULL) {
        handle_stop(control, connection, request->stop);
    } else if (request->status) {
        control_status_send(connection->fd, &control->station.server, control->station.start_ms,
                            &connection->requester, false);
    } else {
        control_send_error(connection->fd, -EINVAL, "the daemon was asked for nothing");
    }
    heapprofd__control_request__free_unpacked(request, NULL);
    return goes_on;
}

static void drop_connection(struct control *control, struct control_connection *connection)
{
    if (connection->session != NULL)
        end_session(control, connection, HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
    rendezvous_end_connection(&control->station.server.rendezvous, connection->fd);
    *connection = control->connections[--control->connection_count];
}

static void handle_request(void *context, int fd, const struct peer_message *message)
{
    struct control *control = context;
    struct control_connection connection = {.fd = fd, .trace_fd = -1};
    if (control->connection_count == CONTROL_CONNECTIONS_MAX ||
        access_peer(fd, &connection.requester, &connection.pid) < 0 ||
        server_watch(&control->station.server, fd) < 0) {
        control_send_error(fd, -EMFILE, "too many ask something of the daemon at once");
        rendezvous_end_connection(&control->station.server.rendezvous, fd);
        return;
    }
    struct control_connection *added = &control->connections[control->connection_count++];
    *added = connection;
    if (!handle_message(control, added, message))
        drop_connection(control, added);
}

/* False: the peer is gone, or has to go. */
static bool read_connection(struct control *control, struct control_connection *connection)
{
    struct peer_message message;
    if (!rendezvous_is_in_turn(&control->station.server.rendezvous, connection->fd))
        return true;
    ssize_t got = peer_socket_peek(connection->fd, &message);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    return handle_message(control, connection, &message);
}

static void handle_readable(void *context, int fd)
{
    struct control *control = context;
    for (size_t i = 0; i < control->connection_count; i++) {
        if (control->connections[i].fd != fd)
            continue;
        if (!read_connection(control, &control->connections[i]))
            drop_connection(control, &control->connections[i]);
        return;
    }
    if (control->readable != NULL)
        control->readable(control->context, fd);
}

int control_open(struct control *control, const char *path, int listener, struct error *error)
{
    control->connection_count = 0;
    control->user = (struct server_user){
        .readable = handle_readable,
        .session_over = handle_session_over,
        .progress = handle_progress,
        .refused = handle_refused,
        .request = handle_request,
        .context = control,
    };
    return station_open(&control->station, path, listener, &control->user, error);
}

void control_close(struct control *control)
{
    for (size_t i = 0; i < control->connection_count; i++) {
        struct control_connection *connection = &control->connections[i];
        if (connection->session != NULL)
            end_session(control, connection, HEAPPROFD__CONTROL_REPLY__END__REASON__DAEMON_ENDS);
        rendezvous_end_connection(&control->station.server.rendezvous, connection->fd);
    }
    control->connection_count = 0;
    station_close(&control->station);
}

void control_step(struct control *control)
{
    server_step(&control->station.server);
}

void control_snapshot_all(struct control *control)
{
    const struct server *server = &control->station.server;
    for (size_t i = 0; i < server->session_count; i++)
        session_dump(server->sessions[i]);
    tell(control, "snapshot of %zu sessions on a signal", server->session_count);
}
