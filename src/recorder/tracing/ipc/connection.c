/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of frames to send, the methods of the bound port, and the requests without a reply. */
#include "recorder/tracing/ipc/connection.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/tracing/ipc/frame.h"
#include "recorder/tracing/ipc/socket_names.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/pass_descriptor.h"

/* --- connecting, and why it fails --- */

static const char *program_of(enum tracing_port port)
{
    return port == TRACING_PRODUCER_PORT ? "producer" : "consumer";
}

/* Debian gives the consumer's socket to the group perfetto, others to traced-consumer. */
static int explain_permission(const struct tracing_socket *to, int code, struct error *error)
{
    struct stat status;
    const struct group *group = NULL;
    if (stat(to->name, &status) == 0 && (status.st_mode & S_IWGRP) != 0)
        group = getgrgid(status.st_gid);
    if (group == NULL)
        return error_set(error, code,
                         "%s: no permission to connect to the tracing service; run as root, or "
                         "change the socket's permissions (traced --set-socket-permissions)",
                         to->name);
    return error_set(error, code,
                     "%s: no permission to connect to the tracing service; its socket is for the "
                     "group %s: add your user to it (usermod -aG %s USER) and log in again, or run "
                     "as root",
                     to->name, group->gr_name, group->gr_name);
}

static int connection_explain(const struct tracing_socket *to, int code, struct error *error)
{
    switch (-code) {
    case EACCES:
    case EPERM:
        return explain_permission(to, code, error);
    case ENOENT:
    case ECONNREFUSED:
        return error_set(error, code,
                         "%s: no tracing service listens here (%s); start it (systemctl start "
                         "traced, or traced --background), or name its %s socket in %s",
                         to->name, strerror(-code), program_of(to->port),
                         tracing_port_variable(to->port));
    case EAGAIN:
        return error_set(error, code,
                         "%s: the tracing service accepts no connection now; try again later",
                         to->name);
    default:
        return error_set(
            error, code, "%s: cannot connect to the tracing service: %s; name its %s socket in %s",
            to->name, strerror(-code), program_of(to->port), tracing_port_variable(to->port));
    }
}

/* Whoever listens at a default in /tmp must be root or this user: a service gets what programs
 * hold, and tells a producer which of them to profile. */
static int check_owner(int fd, const struct tracing_socket *to, struct error *error)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (!to->anybody_may_own)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return error_set(error, -errno, "%s: cannot see who listens here: %s", to->name,
                         strerror(errno));
    if (peer.uid == 0 || peer.uid == geteuid())
        return 0;
    return error_set(error, -EACCES,
                     "%s: user %u listens here, and any user could; if you trust this one, name "
                     "the socket in %s",
                     to->name, peer.uid, tracing_port_variable(to->port));
}

/* Begin to connect, without waiting. Return a non-blocking socket, or a negative errno with a
 * message. A TCP socket is connected when it becomes writable (tracing_connect_finish()). */
static int tracing_connect(const struct tracing_socket *to, struct error *error)
{
    struct sockaddr_storage address;
    int length = tracing_socket_address(to->name, &address, error);
    if (length < 0)
        return length;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return connection_explain(to, -errno, error);
    int result = 0;
    if (connect(fd, (const struct sockaddr *)&address, (socklen_t)length) < 0 &&
        errno != EINPROGRESS)
        result = connection_explain(to, -errno, error);
    if (result == 0)
        result = check_owner(fd, to, error);
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

/* Return 0 if a socket that became writable is connected, or a negative errno with a message. */
static int tracing_connect_finish(int fd, const struct tracing_socket *to, struct error *error)
{
    int failure = 0;
    socklen_t length = sizeof(failure);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length) < 0)
        failure = errno;
    return failure == 0 ? 0 : connection_explain(to, -failure, error);
}

/* Buffers received in one call of serve(): 2 MB. */
#define RECEIVES_MAX 16
/* Methods of a port. Perfetto's has 17. */
#define METHODS_MAX 256

struct queued_frame {
    struct queued_frame *next;
    size_t length, sent;
    int descriptor; /* -1: none, or sent */
    uint8_t bytes[];
};

struct method {
    char *name;
    uint32_t id;
};

struct request {
    uint64_t id;
    tracing_reply_handler *handler;
    void *context;
};

struct tracing_connection {
    struct tracing_socket to;
    int fd;
    bool is_connecting, is_bound;
    struct tracing_frame_reader reader;
    struct queued_frame *first, **last;
    size_t queued_bytes;
    int send_failure; /* negative errno; reported after all has been received */
    uint32_t service_id;
    struct method *methods;
    size_t method_count, method_capacity;
    struct request *requests;
    size_t request_count, request_capacity;
    uint64_t last_request_id;
};

static void drop_queue(struct tracing_connection *connection)
{
    while (connection->first != NULL) {
        struct queued_frame *frame = connection->first;
        connection->first = frame->next;
        if (frame->descriptor >= 0)
            close(frame->descriptor);
        free(frame);
    }
    connection->last = &connection->first;
    connection->queued_bytes = 0;
}

void tracing_connection_close(struct tracing_connection *connection)
{
    if (connection == NULL)
        return;
    drop_queue(connection);
    tracing_frame_reader_clear(&connection->reader);
    for (size_t i = 0; i < connection->method_count; i++)
        free(connection->methods[i].name);
    free(connection->methods);
    free(connection->requests);
    if (connection->fd >= 0)
        close(connection->fd);
    free(connection);
}

int tracing_connection_fd(const struct tracing_connection *connection)
{
    return connection->fd;
}

uint32_t tracing_connection_events(const struct tracing_connection *connection)
{
    bool sends = connection->is_connecting || connection->first != NULL;
    return EPOLLIN | (sends ? (uint32_t)EPOLLOUT : 0);
}

bool tracing_connection_is_bound(const struct tracing_connection *connection)
{
    return connection->is_bound;
}

const char *tracing_connection_name(const struct tracing_connection *connection)
{
    return connection->to.name;
}

/* --- sending --- */

/* Send as much of the queue as the socket takes. Keep a failure for later: the service may have
 * sent its reason before it closed the connection. */
static void send_queue(struct tracing_connection *connection)
{
    while (connection->first != NULL) {
        struct queued_frame *frame = connection->first;
        const struct iovec rest = {.iov_base = frame->bytes + frame->sent,
                                   .iov_len = frame->length - frame->sent};
        ssize_t sent = pass_descriptor(connection->fd, &rest, 1, frame->descriptor, MSG_DONTWAIT);
        if (sent == -EAGAIN || sent == -EINTR)
            return;
        if (sent < 0) {
            connection->send_failure = (int)sent;
            drop_queue(connection);
            return;
        }
        if (frame->descriptor >= 0)
            close(frame->descriptor);
        frame->descriptor = -1;
        frame->sent += (size_t)sent;
        if (frame->sent < frame->length)
            continue;
        connection->first = frame->next;
        if (connection->first == NULL)
            connection->last = &connection->first;
        connection->queued_bytes -= frame->length;
        free(frame);
    }
}

/* Queue a frame, and send it if nothing waits before it. */
static int send_frame(struct tracing_connection *connection,
                      const Perfetto__Protos__IPCFrame *message, int descriptor,
                      struct error *error)
{
    size_t length = tracing_frame_bytes(message);
    if (length == 0)
        return error_set(error, -EMSGSIZE,
                         "%s: a request is longer than the %zu bytes that the tracing service "
                         "accepts",
                         connection->to.name, TRACING_FRAME_BYTES_MAX);
    if (length > TRACING_QUEUE_BYTES_MAX - connection->queued_bytes)
        return error_set(error, -ENOBUFS,
                         "%s: the tracing service does not read: %zu bytes wait to be sent",
                         connection->to.name, connection->queued_bytes);
    int duplicate = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (descriptor >= 0 && duplicate < 0)
        return error_set(error, -errno, "%s: cannot duplicate a descriptor: %s",
                         connection->to.name, strerror(errno));
    struct queued_frame *frame = malloc(sizeof(*frame) + length);
    if (frame == NULL) {
        if (duplicate >= 0)
            close(duplicate);
        return error_set(error, -ENOMEM, "%s: no memory for a request", connection->to.name);
    }
    *frame = (struct queued_frame){.length = length, .descriptor = duplicate};
    tracing_frame_write(message, frame->bytes);
    bool was_empty = connection->first == NULL;
    *connection->last = frame;
    connection->last = &frame->next;
    connection->queued_bytes += length;
    if (was_empty && !connection->is_connecting)
        send_queue(connection);
    return 0;
}

/* --- requests --- */

static int add_request(struct tracing_connection *connection, uint64_t id,
                       tracing_reply_handler *handler, void *context, struct error *error)
{
    if (connection->request_count == TRACING_REQUESTS_MAX)
        return error_set(error, -ENOBUFS,
                         "%s: the tracing service does not reply: %u requests wait",
                         connection->to.name, TRACING_REQUESTS_MAX);
    const struct request request = {.id = id, .handler = handler, .context = context};
    if (ARRAY_ADD(&connection->requests, &connection->request_count, &connection->request_capacity,
                  request) < 0)
        return error_set(error, -ENOMEM, "%s: no memory for a request", connection->to.name);
    return 0;
}

/* Return the index of the request with this id, or request_count if no request has it. */
static size_t find_request(const struct tracing_connection *connection, uint64_t id)
{
    size_t at = 0;
    while (at < connection->request_count && connection->requests[at].id != id)
        at++;
    return at;
}

static void remove_request(struct tracing_connection *connection, size_t at)
{
    connection->requests[at] = connection->requests[--connection->request_count];
}

static const struct method *find_method(const struct tracing_connection *connection,
                                        const char *name)
{
    for (size_t i = 0; i < connection->method_count; i++) {
        if (strcmp(connection->methods[i].name, name) == 0)
            return &connection->methods[i];
    }
    return NULL;
}

bool tracing_connection_has_method(const struct tracing_connection *connection, const char *method)
{
    return find_method(connection, method) != NULL;
}

/* Add the request and send its frame, or do neither. */
static int send_request(struct tracing_connection *connection, Perfetto__Protos__IPCFrame *frame,
                        int descriptor, tracing_reply_handler *handler, void *context,
                        struct error *error)
{
    frame->has_request_id = true;
    frame->request_id = ++connection->last_request_id;
    int result =
        handler == NULL ? 0 : add_request(connection, frame->request_id, handler, context, error);
    if (result < 0)
        return result;
    result = send_frame(connection, frame, descriptor, error);
    if (result < 0 && handler != NULL)
        connection->request_count--;
    return result;
}

/* Send an invocation whose request is packed already. */
static int send_invocation(struct tracing_connection *connection, uint32_t method_id,
                           ProtobufCBinaryData arguments, int descriptor,
                           tracing_reply_handler *handler, void *context, struct error *error)
{
    Perfetto__Protos__IPCFrame__InvokeMethod invoke =
        PERFETTO__PROTOS__IPCFRAME__INVOKE_METHOD__INIT;
    invoke.has_service_id = invoke.has_method_id = invoke.has_args_proto = true;
    invoke.service_id = connection->service_id;
    invoke.method_id = method_id;
    invoke.args_proto = arguments;
    invoke.has_drop_reply = invoke.drop_reply = handler == NULL;
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_INVOKE_METHOD;
    frame.msg_invoke_method = &invoke;
    return send_request(connection, &frame, descriptor, handler, context, error);
}

int tracing_connection_invoke(struct tracing_connection *connection, const char *method,
                              const ProtobufCMessage *request, int descriptor,
                              tracing_reply_handler *handler, void *context, struct error *error)
{
    const struct method *found = find_method(connection, method);
    if (!connection->is_bound)
        return error_set(error, -ENOTCONN, "%s: %s before the tracing service has replied",
                         connection->to.name, method);
    if (found == NULL)
        return error_set(error, -ENOSYS,
                         "%s: this tracing service has no %s; it needs a newer version of Perfetto",
                         connection->to.name, method);
    size_t length = protobuf_c_message_get_packed_size(request);
    if (length > TRACING_FRAME_BYTES_MAX)
        return error_set(error, -EMSGSIZE,
                         "%s: %s with %zu bytes, more than the %zu that the tracing service "
                         "accepts",
                         connection->to.name, method, length, TRACING_FRAME_BYTES_MAX);
    ProtobufCBinaryData arguments = {.len = length, .data = malloc(length + 1)};
    if (arguments.data == NULL)
        return error_set(error, -ENOMEM, "%s: no memory for a request", connection->to.name);
    protobuf_c_message_pack(request, arguments.data);
    int result =
        send_invocation(connection, found->id, arguments, descriptor, handler, context, error);
    free(arguments.data);
    return result;
}

/* --- replies --- */

/* Without a name or an id a method cannot be invoked. Of two with one name the first counts. */
static int add_method(struct tracing_connection *connection,
                      const Perfetto__Protos__IPCFrame__BindServiceReply__MethodInfo *info)
{
    if (info->name == NULL || info->name[0] == '\0' || info->id == 0 ||
        connection->method_count == METHODS_MAX)
        return 0;
    const struct method method = {.name = strdup(info->name), .id = info->id};
    if (method.name == NULL || ARRAY_ADD(&connection->methods, &connection->method_count,
                                         &connection->method_capacity, method) < 0) {
        free(method.name);
        return -ENOMEM;
    }
    return 0;
}

static int handle_bound(struct tracing_connection *connection,
                        const Perfetto__Protos__IPCFrame *frame, struct error *error)
{
    if (frame->msg_case == PERFETTO__PROTOS__IPCFRAME__MSG__NOT_SET)
        return 0; /* of a kind that we do not know */
    const Perfetto__Protos__IPCFrame__BindServiceReply *reply =
        frame->msg_case == PERFETTO__PROTOS__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY
            ? frame->msg_bind_service_reply
            : NULL;
    if (reply == NULL || !reply->success)
        return error_set(error, -EPROTO,
                         "%s: this is not the tracing service's %s; name its socket in %s",
                         connection->to.name, tracing_port_service(connection->to.port),
                         tracing_port_variable(connection->to.port));
    for (size_t i = 0; i < reply->n_methods; i++) {
        if (add_method(connection, reply->methods[i]) < 0)
            return error_set(error, -ENOMEM, "%s: no memory", connection->to.name);
    }
    connection->service_id = reply->service_id;
    connection->is_bound = true;
    return 0;
}

/* Make the reply of a frame. Its bytes are the frame's. Return false if it is not one. */
static bool read_reply(const struct tracing_frame *frame, struct tracing_reply *reply)
{
    const Perfetto__Protos__IPCFrame *message = frame->message;
    *reply = (struct tracing_reply){.descriptor = frame->descriptor};
    if (message->msg_case == PERFETTO__PROTOS__IPCFRAME__MSG_MSG_REQUEST_ERROR) {
        reply->refusal = message->msg_request_error->error;
        return true;
    }
    if (message->msg_case != PERFETTO__PROTOS__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY)
        return false;
    const Perfetto__Protos__IPCFrame__InvokeMethodReply *got = message->msg_invoke_method_reply;
    reply->success = got->success;
    reply->has_more = got->has_more;
    if (reply->success) {
        reply->bytes = got->reply_proto.data;
        reply->length = got->reply_proto.len;
    }
    return true;
}

/* The first request is that of tracing_connection_open(), which has no handler. */
static int handle_frame(struct tracing_connection *connection, struct tracing_frame *frame,
                        struct error *error)
{
    if (!connection->is_bound)
        return frame->message->request_id == 1 ? handle_bound(connection, frame->message, error)
                                               : 0;
    struct tracing_reply reply;
    size_t at = find_request(connection, frame->message->request_id);
    if (at == connection->request_count || !read_reply(frame, &reply))
        return 0;
    const struct request request = connection->requests[at];
    if (!reply.has_more)
        remove_request(connection, at);
    int result = request.handler(request.context, &reply, error);
    frame->descriptor = reply.descriptor;
    return result;
}

static int handle_frames(struct tracing_connection *connection, struct error *error)
{
    struct tracing_frame frame;
    struct error problem;
    int result;
    while ((result = tracing_frame_next(&connection->reader, &frame, &problem)) > 0) {
        result = handle_frame(connection, &frame, error);
        tracing_frame_clear(&frame);
        if (result < 0)
            return result;
    }
    if (result < 0)
        return error_set(error, result, "%s: the tracing service violates its protocol: %s",
                         connection->to.name, problem.message);
    return 0;
}

/* --- serving --- */

static int report_end(const struct tracing_connection *connection, int code, struct error *error)
{
    const char *inside =
        tracing_frame_is_cut(&connection->reader) ? " in the middle of a message" : "";
    if (code == 0 || code == -ECONNRESET || code == -EPIPE)
        return error_set(error, -ECONNRESET,
                         "%s: the tracing service closed the connection%s; see its log, and start "
                         "it again if it ended",
                         connection->to.name, inside);
    return error_set(error, code, "%s: the connection to the tracing service failed%s: %s",
                     connection->to.name, inside, strerror(-code));
}

/* Return 0 while the connection lasts. */
static int receive(struct tracing_connection *connection, struct error *error)
{
    for (unsigned i = 0; i < RECEIVES_MAX; i++) {
        ssize_t got = tracing_frame_receive(&connection->reader, connection->fd);
        if (got == -EINTR)
            continue;
        if (got == -EAGAIN)
            return connection->send_failure == 0
                       ? 0
                       : report_end(connection, connection->send_failure, error);
        if (got <= 0)
            return report_end(connection, (int)got, error);
        int result = handle_frames(connection, error);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Return 1 if the socket is connected, 0 if that still takes time. */
static int finish_connecting(struct tracing_connection *connection, struct error *error)
{
    if (!connection->is_connecting)
        return 1;
    struct pollfd socket = {.fd = connection->fd, .events = POLLOUT};
    if (poll(&socket, 1, 0) <= 0)
        return 0;
    int result = tracing_connect_finish(connection->fd, &connection->to, error);
    if (result < 0)
        return result;
    connection->is_connecting = false;
    return 1;
}

int tracing_connection_serve(struct tracing_connection *connection, struct error *error)
{
    int result = finish_connecting(connection, error);
    if (result <= 0)
        return result;
    send_queue(connection);
    return receive(connection, error);
}

int tracing_connection_wait(struct tracing_connection *connection, uint64_t deadline_ms,
                            struct error *error)
{
    struct pollfd socket = {.fd = connection->fd,
                            .events = (short)tracing_connection_events(connection)};
    int ready = poll(&socket, 1, event_loop_timeout(clock_read_ms(CLOCK_MONOTONIC), deadline_ms));
    if (ready < 0 && errno == EINTR)
        return 0;
    if (ready < 0)
        return error_set(error, -errno, "%s: cannot wait: %s", connection->to.name,
                         strerror(errno));
    if (ready == 0)
        return error_set(error, -ETIMEDOUT,
                         "%s: the tracing service does not reply; see its log, or start it again",
                         connection->to.name);
    return tracing_connection_serve(connection, error);
}

struct tracing_connection *tracing_connection_open(const struct tracing_socket *to,
                                                   struct error *error)
{
    struct tracing_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        error_set(error, -ENOMEM, "%s: no memory for a connection", to->name);
        return NULL;
    }
    connection->to = *to;
    connection->last = &connection->first;
    tracing_frame_reader_init(&connection->reader);
    connection->is_connecting = true;
    connection->fd = tracing_connect(to, error);
    Perfetto__Protos__IPCFrame__BindService bind = PERFETTO__PROTOS__IPCFRAME__BIND_SERVICE__INIT;
    bind.service_name = (char *)tracing_port_service(to->port);
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_BIND_SERVICE;
    frame.msg_bind_service = &bind;
    if (connection->fd < 0 || send_request(connection, &frame, -1, NULL, NULL, error) < 0) {
        tracing_connection_close(connection);
        return NULL;
    }
    return connection;
}

int tracing_reply_refused(const struct tracing_connection *connection, const char *what,
                          const struct tracing_reply *reply, struct error *error)
{
    return error_set(error, -EREMOTEIO, "%s: the tracing service refused %s: %s; see its log",
                     connection->to.name, what,
                     reply->refusal != NULL ? reply->refusal : "it gave no reason");
}
