/* SPDX-License-Identifier: Apache-2.0 */
/* Judges requests for the trace, and sends it from its descriptor. */
#include "view/server/perfetto.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "import/import.h"
#include "util/base_name.h"
#include "util/regular_file.h"
#include "view/server/listen.h"
#include "view/server/peer.h"

#define CONNECTIONS_MAX 16u
#define IDLE_SECONDS 30u
#define CONNECTION_BYTES (32u << 10) /* of a request's line and header lines */

/* --- who may ask --- */

enum perfetto_answer perfetto_judge(const struct access *access, const char *name,
                                    const struct perfetto_request *request)
{
    char host[32];
    snprintf(host, sizeof(host), "127.0.0.1:%u", access->port);
    if (request->host == NULL || strcmp(request->host, host) != 0)
        return PERFETTO_WRONG_HOST;
    if (request->path[0] != '/' || !access_has_token(access, request->path + 1) ||
        strcmp(request->path + 1 + ACCESS_TOKEN_LENGTH + 1, name) != 0)
        return PERFETTO_WRONG_PATH;
    if (request->origin != NULL && strcmp(request->origin, PERFETTO_ORIGIN) != 0)
        return PERFETTO_WRONG_ORIGIN;
    if (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0)
        return PERFETTO_FILE;
    if (strcmp(request->method, "OPTIONS") != 0)
        return PERFETTO_WRONG_METHOD;
    return request->origin != NULL ? PERFETTO_PREFLIGHT : PERFETTO_WRONG_ORIGIN;
}

/* --- answers --- */

struct header {
    const char *name, *value;
};

static void add_headers(struct MHD_Response *response, const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        MHD_add_response_header(response, headers[i].name, headers[i].value);
}

/* Return an answer with the file's bytes, which libmicrohttpd reads when it sends them. Take over
 * the descriptor on success. */
static struct MHD_Response *make_file(int fd, uint64_t length)
{
    static const struct header headers[] = {
        {"Access-Control-Allow-Origin", PERFETTO_ORIGIN},
        {"Cache-Control", "no-store"},
        {"Content-Type", "application/octet-stream"},
        {"Cross-Origin-Resource-Policy", "same-origin"}, /* of requests without CORS */
        {"X-Content-Type-Options", "nosniff"},
    };
    struct MHD_Response *response = MHD_create_response_from_fd64(length, fd);
    if (response != NULL)
        add_headers(response, headers, sizeof(headers) / sizeof(headers[0]));
    return response;
}

static enum MHD_Result send_once(struct MHD_Connection *connection, unsigned status,
                                 const char *text, const struct header *headers, size_t count)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    add_headers(response, headers, count);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Chrome asks before a public site may read from this machine. */
static enum MHD_Result send_preflight(struct MHD_Connection *connection)
{
    static const struct header headers[] = {
        {"Access-Control-Allow-Origin", PERFETTO_ORIGIN},
        {"Access-Control-Allow-Methods", "GET, HEAD"},
        {"Access-Control-Allow-Private-Network", "true"},
    };
    return send_once(connection, MHD_HTTP_NO_CONTENT, "", headers,
                     sizeof(headers) / sizeof(headers[0]));
}

/* Other sites cannot read the sentence: it has no Access-Control-Allow-Origin. */
static enum MHD_Result refuse(struct MHD_Connection *connection, enum perfetto_answer why)
{
    static const struct header headers[] = {{"Content-Type", "text/plain"},
                                            {"Allow", "GET, HEAD, OPTIONS"}};
    static const char *const words[] = {
        [PERFETTO_WRONG_HOST] = "the request names another host\n",
        [PERFETTO_WRONG_PATH] = "there is no trace at this address: ask for it again on the page "
                                "of heap_profile view\n",
        [PERFETTO_WRONG_ORIGIN] = "the trace is for " PERFETTO_ORIGIN " only\n",
        [PERFETTO_WRONG_METHOD] = "the trace can only be read\n",
    };
    unsigned status =
        why == PERFETTO_WRONG_METHOD ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_FORBIDDEN;
    return send_once(connection, status, words[why], headers, sizeof(headers) / sizeof(headers[0]));
}

static enum MHD_Result take_connection(void *context, const struct sockaddr *from, socklen_t length)
{
    (void)context;
    return peer_may_connect(from, length, PERFETTO_PORT) ? MHD_YES : MHD_NO;
}

/* Called with the header lines, then for each part of the body, then at the request's end. An
 * answer to the first call would end the connection. */
static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *upload, size_t *upload_bytes, void **state)
{
    struct perfetto *perfetto = context;
    (void)version;
    (void)upload;
    if (*state == NULL || *upload_bytes > 0) {
        *state = perfetto;
        *upload_bytes = 0;
        return MHD_YES;
    }
    const struct perfetto_request request = {
        .method = method,
        .path = url,
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
    };
    enum MHD_Result result = MHD_YES;
    pthread_mutex_lock(&perfetto->lock);
    enum perfetto_answer answer = perfetto_judge(&perfetto->access, perfetto->name, &request);
    if (answer == PERFETTO_FILE) /* holds the response until it is sent */
        result = MHD_queue_response(connection, MHD_HTTP_OK, perfetto->file);
    pthread_mutex_unlock(&perfetto->lock);
    if (answer == PERFETTO_PREFLIGHT)
        return send_preflight(connection);
    return answer == PERFETTO_FILE ? result : refuse(connection, answer);
}

/* --- the file --- */

/* Open a file. Return NULL with *error set if it is not a trace. */
static struct MHD_Response *open_trace(const char *path, struct error *error)
{
    char opened[32];
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0) {
        error_set(error, fd, "cannot open '%.300s': %s", path,
                  fd == -EINVAL ? "not a regular file" : strerror(-fd));
        return NULL;
    }
    snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
    enum import_kind kind = import_kind_of_file(opened);
    struct MHD_Response *file = NULL;
    if (kind != IMPORT_TRACE)
        error_set(error, -EINVAL, "'%.300s' is %s: Perfetto UI can open traces only", path,
                  import_kind_words(kind));
    else if ((file = make_file(fd, (uint64_t)status.st_size)) == NULL)
        error_set(error, -ENOMEM, "not enough memory to send '%.300s'", path);
    if (file == NULL)
        close(fd);
    return file;
}

/* Copy the name of a file, with '_' for what an address would have to encode. */
static void take_name(char name[NAME_MAX + 1], const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    snprintf(name, NAME_MAX + 1, "%s", base_name(path));
    for (char *at = name; *(at += strspn(at, plain)) != '\0';)
        *at = '_';
}

/* --- the server --- */

void perfetto_begin(struct perfetto *perfetto)
{
    *perfetto = (struct perfetto){.daemon = NULL};
    pthread_mutex_init(&perfetto->lock, NULL);
}

static int start(struct perfetto *perfetto, struct error *error)
{
    uint16_t port;
    int fd = view_listen_on_port(PERFETTO_PORT, &port, error);
    if (fd == -EADDRINUSE)
        return error_set(error, fd,
                         "another program has port %u of 127.0.0.1, the only one that Perfetto UI "
                         "reads from: end that program (another view, or trace_processor), or open "
                         "the trace's file in " PERFETTO_ORIGIN,
                         PERFETTO_PORT);
    if (fd < 0)
        return fd;
    perfetto->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, take_connection, NULL, take_request,
        perfetto, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (perfetto->daemon != NULL)
        return 0;
    close(fd);
    return error_set(error, -EIO, "cannot start the server for Perfetto UI");
}

/* Requests wait for the lock, so they see the old trace or the new one. */
static int replace(struct perfetto *perfetto, const char *path, struct MHD_Response *file,
                   struct error *error)
{
    struct access access;
    int code = access_begin(&access, PERFETTO_PORT);
    if (code < 0)
        return error_set(error, code, "no random token: %s", strerror(-code));
    if (perfetto->daemon == NULL && (code = start(perfetto, error)) < 0)
        return code;
    if (perfetto->file != NULL)
        MHD_destroy_response(perfetto->file);
    perfetto->file = file;
    perfetto->access = access;
    take_name(perfetto->name, path);
    return 0;
}

int perfetto_serve(struct perfetto *perfetto, const char *path, char url[PERFETTO_URL_BYTES],
                   struct error *error)
{
    struct MHD_Response *file = open_trace(path, error);
    if (file == NULL)
        return error->code;
    pthread_mutex_lock(&perfetto->lock);
    int code = replace(perfetto, path, file, error);
    if (code == 0)
        snprintf(url, PERFETTO_URL_BYTES, PERFETTO_ORIGIN "/#!/?url=http://127.0.0.1:%u/%s/%s",
                 PERFETTO_PORT, perfetto->access.token, perfetto->name);
    pthread_mutex_unlock(&perfetto->lock);
    if (code < 0)
        MHD_destroy_response(file);
    return code;
}

void perfetto_end(struct perfetto *perfetto)
{
    if (perfetto->daemon != NULL)
        MHD_stop_daemon(perfetto->daemon);
    if (perfetto->file != NULL)
        MHD_destroy_response(perfetto->file);
    pthread_mutex_destroy(&perfetto->lock);
}
