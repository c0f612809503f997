/* SPDX-License-Identifier: Apache-2.0 */
/* Answers requests with libmicrohttpd, driven by the caller's loop. */
#include "production/metrics/server.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "production/metrics/exposition.h"
#include "util/clock.h"

#define IDLE_SECONDS 3u

struct metrics_server {
    struct MHD_Daemon *daemon;
    int descriptor;
    struct server_text text;
    struct made_text {
        struct MHD_Response *response; /* NULL: none yet */
        uint64_t made_ms;
    } made[2]; /* by is_open_metrics */
    struct served {
        struct MHD_Connection *connection; /* NULL: free */
        int fd;
        uint64_t began_ms;
        bool is_cut;
    } connections[SERVER_CONNECTIONS_MAX];
};

/* --- answers --- */

static struct MHD_Response *make_response(const char *type, char *text, size_t length,
                                          enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(length, text, mode);
    if (response == NULL)
        return NULL;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Connection", "close");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    return response;
}

static enum MHD_Result send_words(struct MHD_Connection *connection, unsigned status,
                                  const char *type, const char *words)
{
    struct MHD_Response *response =
        make_response(type, (char *)words, strlen(words), MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static struct MHD_Response *make_metrics(const struct metrics_server *server, bool is_open_metrics)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    int code = server->text.write(server->text.context, out, is_open_metrics);
    bool is_whole = ferror(out) == 0;
    struct MHD_Response *response = NULL;
    if (fclose(out) == 0 && is_whole && code == 0)
        response =
            make_response(is_open_metrics ? EXPOSITION_TYPE_OPEN_METRICS : EXPOSITION_TYPE_TEXT,
                          text, length, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(text);
    else
        MHD_add_response_header(response, "Vary", "Accept");
    return response;
}

static enum MHD_Result send_metrics(struct metrics_server *server,
                                    struct MHD_Connection *connection)
{
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
    bool is_open_metrics = exposition_wants_open_metrics(accept);
    struct made_text *made = &server->made[is_open_metrics];
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (made->response != NULL && now_ms - made->made_ms >= SERVER_FRESH_MS) {
        MHD_destroy_response(made->response);
        made->response = NULL;
    }
    if (made->response == NULL) {
        made->response = make_metrics(server, is_open_metrics);
        made->made_ms = now_ms;
    }
    if (made->response == NULL)
        return send_words(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
                          "not enough memory for the metrics\n");
    return MHD_queue_response(connection, MHD_HTTP_OK, made->response);
}

/* A request is answered when its header lines are here. Its body, if it has one, is not read: the
 * connection ends. */
static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *upload, size_t *upload_bytes, void **state)
{
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_words(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
                          "only GET is answered here\n");
    if (strcmp(url, "/metrics") == 0)
        return send_metrics(context, connection);
    if (strcmp(url, "/") == 0)
        return send_words(
            connection, MHD_HTTP_OK, "text/html; charset=utf-8",
            "<!doctype html><title>heapprofd</title>"
            "<p>heapprofd in continuous mode: <a href=\"/metrics\">metrics</a></p>\n");
    return send_words(connection, MHD_HTTP_NOT_FOUND, "text/plain", "see /metrics\n");
}

/* --- connections --- */

/* MHD's time limit is for silence: a client that sends a byte now and then would stay. */
static void note_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code)
{
    struct metrics_server *server = context;
    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    (void)socket_context;
    for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct served *served = &server->connections[i];
        if (served->connection != (begins ? NULL : connection))
            continue;
        *served = (struct served){0};
        if (begins) {
            const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
            served->connection = connection;
            served->fd = info != NULL ? info->connect_fd : -1;
            served->began_ms = clock_read_ms(CLOCK_MONOTONIC);
        }
        return;
    }
}

static uint64_t end_of(const struct served *served, bool is_crowded)
{
    return served->began_ms + (is_crowded ? SERVER_CROWDED_MS : SERVER_CONNECTION_MS);
}

/* Cut connections that are too old, and the oldest one if there is no room for others: MHD finds
 * that they have ended. Return when the next one is due. */
static uint64_t cut_old(struct metrics_server *server, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    struct served *oldest = NULL;
    size_t in_use = 0;
    for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct served *served = &server->connections[i];
        in_use += served->connection != NULL;
        if (served->connection != NULL && !served->is_cut &&
            (oldest == NULL || served->began_ms < oldest->began_ms))
            oldest = served;
    }
    for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct served *served = &server->connections[i];
        uint64_t end_ms = end_of(served, served == oldest && in_use == SERVER_CONNECTIONS_MAX);
        if (served->connection == NULL || served->is_cut)
            continue;
        if (end_ms <= now_ms) {
            shutdown(served->fd, SHUT_RDWR);
            served->is_cut = true;
        } else {
            due_ms = clock_earlier(due_ms, end_ms);
        }
    }
    return due_ms;
}

void metrics_server_work(struct metrics_server *server, unsigned *timeout_ms)
{
    MHD_UNSIGNED_LONG_LONG mhd_ms;
    MHD_run(server->daemon);
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    uint64_t due_ms = cut_old(server, now_ms);
    if (due_ms != UINT64_MAX && due_ms - now_ms < *timeout_ms)
        *timeout_ms = (unsigned)(due_ms - now_ms);
    if (MHD_get_timeout(server->daemon, &mhd_ms) == MHD_YES && mhd_ms < *timeout_ms)
        *timeout_ms = (unsigned)mhd_ms;
}

/* --- life --- */

struct metrics_server *metrics_server_open(int listener, const struct server_text *text,
                                           struct error *error)
{
    struct metrics_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        close(listener);
        error_set(error, -ENOMEM, "no memory to serve metrics");
        return NULL;
    }
    server->text = *text;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, take_request, server, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, SERVER_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_HEADER_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        server->daemon != NULL ? MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                               : NULL;
    if (info == NULL) {
        error_set(error, -EIO, "cannot start the server of metrics: %s", strerror(errno));
        if (server->daemon != NULL)
            MHD_stop_daemon(server->daemon);
        else
            close(listener);
        free(server);
        return NULL;
    }
    server->descriptor = info->epoll_fd;
    return server;
}

int metrics_server_descriptor(const struct metrics_server *server)
{
    return server->descriptor;
}

void metrics_server_close(struct metrics_server *server)
{
    MHD_stop_daemon(server->daemon);
    for (size_t i = 0; i < 2; i++)
        if (server->made[i].response != NULL)
            MHD_destroy_response(server->made[i].response);
    free(server);
}
