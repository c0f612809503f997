/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the page's files and the answers to its questions with libmicrohttpd. */
#include "tools/view/server/server.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/view/answers/answers.h"
#include "tools/view/page/page.h"
#include "tools/view/server/listen.h"
#include "tools/view/server/peer.h"
#include "tools/view/server/perfetto.h"
#include "tools/view/server/sql.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define CONNECTIONS_MAX 64u
#define IDLE_SECONDS 120u
/* libmicrohttpd has it under another name before 0.9.74. */
#define HTTP_CONTENT_TOO_LARGE 413u
#define CONNECTION_BYTES (64u << 10) /* of a request's line and header lines */

/* A question, in the form that its answer needs. */
struct question {
    struct view_parameters parameters;
    const char *body; /* of POST; else "" */
};

struct view_server {
    struct view_profiles *profiles; /* owned */
    uint64_t generation;            /* how many profiles were here before these */
    _Atomic uint64_t answers;       /* number of answers from profiles */
    struct view_sql sql;
    const char *paths[VIEW_PROFILES_MAX];
    /* Each connection has a thread. Questions are answered one at a time, but SQL, which may take
     * long, does not keep the others waiting. */
    pthread_mutex_t profiles_lock, sql_lock;
    _Atomic unsigned waiting_for_sql; /* threads that need sql_lock soon: queries end */
    struct access access;
    struct perfetto perfetto;
    /* The caller's questions. */
    const struct view_question *questions;
    size_t question_count;
    void *context;
    struct MHD_Daemon *daemon;
    char address[160];
    char *socket_path; /* removed at the end; NULL: none */
};

static int answer_sql(struct view_server *server, const struct question *question, FILE *out,
                      struct error *error)
{
    pthread_mutex_lock(&server->sql_lock);
    int code = view_sql_run(&server->sql, question->body, out, error);
    pthread_mutex_unlock(&server->sql_lock);
    return code;
}

static int answer_sql_tables(struct view_server *server, const struct question *question, FILE *out,
                             struct error *error)
{
    (void)question;
    pthread_mutex_lock(&server->sql_lock);
    int code = view_sql_tables(&server->sql, out, error);
    pthread_mutex_unlock(&server->sql_lock);
    return code;
}

static int answer_state(struct view_server *server, const struct question *question, FILE *out,
                        struct error *error)
{
    (void)question;
    (void)error;
    pthread_mutex_lock(&server->profiles_lock);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "generation", server->generation);
    json_end_object(&json);
    pthread_mutex_unlock(&server->profiles_lock);
    return 0;
}

/* Write the path of the profile that a question names. Return 0 or a negative errno. */
static int take_path(struct view_server *server, const struct question *question,
                     char path[PATH_MAX], struct error *error)
{
    static const struct view_range range = {0, VIEW_PROFILES_MAX - 1, 0};
    uint64_t index;
    int code = view_parameter_number(&question->parameters, "profile", range, &index, error);
    pthread_mutex_lock(&server->profiles_lock);
    if (code == 0 && index >= server->profiles->count)
        code = error_set(error, -ENOENT, "there is no profile %ju", (uintmax_t)index);
    if (code == 0)
        snprintf(path, PATH_MAX, "%s", server->profiles->items[index].path);
    pthread_mutex_unlock(&server->profiles_lock);
    return code;
}

static int answer_perfetto(struct view_server *server, const struct question *question, FILE *out,
                           struct error *error)
{
    char path[PATH_MAX], url[PERFETTO_URL_BYTES];
    int code = take_path(server, question, path, error);
    if (code == 0)
        code = perfetto_serve(&server->perfetto, path, url, error);
    if (code < 0)
        return code;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "url", url);
    json_end_object(&json);
    return 0;
}

static int answer_of_profiles(answer_function *answer, struct view_server *server,
                              const struct question *question, FILE *out, struct error *error)
{
    pthread_mutex_lock(&server->profiles_lock);
    int code = answer(server->profiles, &question->parameters, out, error);
    server->answers++;
    pthread_mutex_unlock(&server->profiles_lock);
    return code;
}

/* What is at an address. One of the three answers is set. */
struct page {
    const char *name, *method, *type;
    answer_function *of_profiles;
    int (*of_server)(struct view_server *server, const struct question *question, FILE *out,
                     struct error *error);
    const struct view_question *of_caller;
};

/* SQL is asked for by POST, because it is text of any length. Only api/perfetto changes something:
 * what the port of Perfetto UI serves. */
static const struct page pages[] = {
    {"api/allocators", "GET", "application/json", answer_allocators, NULL, NULL},
    {"api/budgets", "GET", "application/json", answer_budgets, NULL, NULL},
    {"api/course", "GET", "application/json", answer_course, NULL, NULL},
    {"api/details", "GET", "application/json", answer_details, NULL, NULL},
    {"api/export", "GET", "application/octet-stream", answer_export, NULL, NULL},
    {"api/functions", "GET", "application/json", answer_functions, NULL, NULL},
    {"api/leaks", "GET", "application/json", answer_leaks, NULL, NULL},
    {"api/memory", "GET", "application/json", answer_memory, NULL, NULL},
    {"api/overview", "GET", "application/json", answer_overview, NULL, NULL},
    {"api/perfetto", "POST", "application/json", NULL, answer_perfetto, NULL},
    {"api/range", "GET", "application/json", answer_range, NULL, NULL},
    {"api/runs", "GET", "application/json", answer_runs, NULL, NULL},
    {"api/save", "GET", "application/octet-stream", answer_save, NULL, NULL},
    {"api/source", "GET", "application/json", answer_source, NULL, NULL},
    {"api/sql", "POST", "application/json", NULL, answer_sql, NULL},
    {"api/state", "GET", "application/json", NULL, answer_state, NULL},
    {"api/summary", "GET", "application/json", answer_summary, NULL, NULL},
    {"api/table", "GET", "application/json", answer_table, NULL, NULL},
    {"api/tables", "GET", "application/json", NULL, answer_sql_tables, NULL},
    {"api/tree", "GET", "application/octet-stream", answer_flame, NULL, NULL},
};

/* --- answers --- */

/* The page runs its own script and style only, and is shown in no other page. */
static void add_headers(struct MHD_Response *response, const char *type)
{
    static const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        MHD_add_response_header(response, headers[i].name, headers[i].value);
    MHD_add_response_header(response, "Content-Type", type);
}

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status,
                                     struct MHD_Response *response, const char *type)
{
    if (response == NULL)
        return MHD_NO;
    add_headers(response, type);
    /* A stranger does not keep one of the connections. */
    if (status == MHD_HTTP_FORBIDDEN)
        MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_error(struct MHD_Connection *connection, unsigned status,
                                  const char *message)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = xopen_memstream(&text, &length);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "error", message);
    json_end_object(&json);
    xclose_memstream(out);
    return send_response(connection, status,
                         MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE),
                         "application/json");
}

static unsigned status_of(int code)
{
    switch (code) {
    case -EINVAL:
    case PATTERN_EXCEEDS:
    case -E2BIG:
    case -EBADMSG: /* of a profile that the question names */
    case -ENAMETOOLONG:
        return MHD_HTTP_BAD_REQUEST;
    case -ENOENT:
        return MHD_HTTP_NOT_FOUND;
    case -EACCES:
    case -EPERM:
        return MHD_HTTP_FORBIDDEN;
    case -EADDRINUSE:
        return MHD_HTTP_CONFLICT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static enum MHD_Result take_parameter(void *context, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct view_parameters *parameters = context;
    (void)kind;
    if (parameters->count == VIEW_PARAMETERS_MAX) {
        parameters->are_too_many = true;
        return MHD_NO;
    }
    parameters->items[parameters->count++] =
        (struct view_parameter){name, value != NULL ? value : ""};
    return MHD_YES;
}

static int write_answer(struct view_server *server, const struct page *page,
                        const struct question *question, FILE *out, struct error *error)
{
    if (page->of_profiles != NULL)
        return answer_of_profiles(page->of_profiles, server, question, out, error);
    if (page->of_server != NULL)
        return page->of_server(server, question, out, error);
    return page->of_caller->answer(server->context, &question->parameters, question->body, out,
                                   error);
}

static enum MHD_Result server_answer(struct view_server *server, struct MHD_Connection *connection,
                                     const struct page *page, const char *body)
{
    struct question question = {.body = body};
    struct error error = {0};
    char *text = NULL;
    size_t length = 0;
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_parameter,
                              &question.parameters);
    if (question.parameters.are_too_many)
        return send_error(connection, MHD_HTTP_BAD_REQUEST, "the question has too many parameters");
    FILE *out = xopen_memstream(&text, &length);
    int code = write_answer(server, page, &question, out, &error);
    xclose_memstream(out);
    if (code < 0) {
        free(text);
        return send_error(connection, status_of(code), error.message);
    }
    return send_response(connection, MHD_HTTP_OK,
                         MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE),
                         page->type);
}

static enum MHD_Result send_asset(struct MHD_Connection *connection, const struct view_asset *asset)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        asset->length, (void *)asset->bytes, MHD_RESPMEM_PERSISTENT);
    if (response != NULL)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    return send_response(connection, MHD_HTTP_OK, response, asset->type);
}

/* --- requests --- */

static enum MHD_Result server_refuse(struct MHD_Connection *connection, enum access_answer why)
{
    static const char *const words[] = {
        [ACCESS_WRONG_TOKEN] =
            "this address has no valid token: open the address that heap_profile "
            "view printed",
        [ACCESS_WRONG_HOST] = "the request names another host: open the address that heap_profile "
                              "view printed",
        [ACCESS_WRONG_ORIGIN] = "the request comes from another page",
    };
    return send_error(connection, MHD_HTTP_FORBIDDEN, words[why]);
}

/* A request that is being received. */
struct received {
    char *body;
    size_t length;
    bool is_too_long, has_zero;
};

static void take_body(struct received *received, const char *bytes, size_t length)
{
    if (received->is_too_long || length > VIEW_SQL_BYTES_MAX - received->length) {
        received->is_too_long = true;
        return;
    }
    char *grown = xreallocarray(received->body, received->length + length + 1, 1);
    memcpy(grown + received->length, bytes, length);
    received->has_zero |= memchr(bytes, '\0', length) != NULL;
    received->body = grown;
    received->length += length;
    grown[received->length] = '\0';
}

static void forget_request(void *context, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode code)
{
    struct received *received = *state;
    (void)context;
    (void)connection;
    (void)code;
    if (received != NULL)
        free(received->body);
    free(received);
}

/* Find what is at an address. Return false: nothing. */
static bool find_page(const struct view_server *server, const char *path, struct page *page)
{
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        *page = pages[i];
        if (strcmp(path, page->name) == 0)
            return true;
    }
    for (size_t i = 0; i < server->question_count; i++) {
        const struct view_question *of = &server->questions[i];
        const char *type = of->type != NULL ? of->type : "application/json";
        *page = (struct page){of->name, of->method, type, NULL, NULL, of};
        if (strcmp(path, page->name) == 0)
            return true;
    }
    return false;
}

static enum MHD_Result route(struct view_server *server, struct MHD_Connection *connection,
                             const char *path, const char *method, const struct received *received)
{
    const char *name = *path == '\0' ? "index.html" : path;
    bool gets = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    for (size_t i = 0; i < view_asset_count && gets; i++)
        if (strcmp(name, view_assets[i].name) == 0)
            return send_asset(connection, &view_assets[i]);
    struct page page;
    if (!find_page(server, path, &page))
        return send_error(connection, MHD_HTTP_NOT_FOUND, "there is nothing at this address");
    if (strcmp(page.method, gets ? "GET" : method) != 0)
        return send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                          "this address takes another method");
    return server_answer(server, connection, &page, received->body != NULL ? received->body : "");
}

/* Headers that say whom a request is for, who asks, and where it ends: two of one row may
 * contradict each other, and somebody on the way may have believed the other one. */
static const char *const single_headers[][2] = {
    {"Host", "Host"}, {"Origin", "Origin"}, {"Content-Length", "Transfer-Encoding"}};
#define SINGLE_HEADERS (sizeof(single_headers) / sizeof(single_headers[0]))

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    unsigned *counts = context;
    (void)kind;
    (void)value;
    for (size_t i = 0; i < SINGLE_HEADERS; i++)
        counts[i] += strcasecmp(name, single_headers[i][0]) == 0 ||
                     strcasecmp(name, single_headers[i][1]) == 0;
    return MHD_YES;
}

static bool is_ambiguous(struct MHD_Connection *connection)
{
    unsigned counts[SINGLE_HEADERS] = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, counts);
    for (size_t i = 0; i < SINGLE_HEADERS; i++)
        if (counts[i] > 1)
            return true;
    return false;
}

static enum MHD_Result server_judge(struct view_server *server, struct MHD_Connection *connection,
                                    const char *url, const char *method,
                                    const struct received *received)
{
    const char *path = NULL;
    const struct access_request request = {
        .path = url,
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
        .fetch_site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site"),
    };
    if (is_ambiguous(connection))
        return MHD_NO; /* closes the connection */
    enum access_answer judged = access_judge(&server->access, &request, &path);
    if (judged != ACCESS_GRANTED)
        return server_refuse(connection, judged);
    if (received->is_too_long)
        return send_error(connection, HTTP_CONTENT_TOO_LARGE,
                          "the body of the request is too long");
    if (received->has_zero)
        return send_error(connection, MHD_HTTP_BAD_REQUEST,
                          "the body of the request has a zero byte");
    return route(server, connection, path, method, received);
}

/* Called with the header lines, then for each part of the body, then at the request's end. An
 * answer to the first call would end the connection. */
static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *upload, size_t *upload_bytes, void **state)
{
    (void)version;
    if (*state == NULL) {
        *state = xcalloc(1, sizeof(struct received));
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        take_body(*state, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    return server_judge(context, connection, url, method, *state);
}

/* --- */

/* Called for each new connection. Another user's would otherwise take the place of ours until it is
 * idle for long. */
static enum MHD_Result take_connection(void *context, const struct sockaddr *from, socklen_t length)
{
    const struct view_server *server = context;
    return peer_may_connect(from, length, server->access.port) ? MHD_YES : MHD_NO;
}

static const char *socket_without_memory;

/* A server that ends because memory is out leaves no socket to be refused the next time. */
static void remove_socket(void)
{
    if (socket_without_memory != NULL)
        unlink(socket_without_memory);
}

static int server_start(struct view_server *server, const struct view_server_options *options,
                        struct error *error)
{
    uint16_t port = 0;
    int fd = options->socket_path != NULL ? view_listen_on_path(options->socket_path, error)
                                          : view_listen_on_port(options->port, &port, error);
    if (fd < 0)
        return fd;
    if (options->socket_path != NULL) {
        server->socket_path = xstrdup(options->socket_path);
        socket_without_memory = server->socket_path;
        xmalloc_before_exit = remove_socket;
    }
    int code = access_begin(&server->access, port);
    if (code < 0) {
        close(fd);
        return error_set(error, code, "no random token: %s", strerror(-code));
    }
    if (port != 0)
        snprintf(server->address, sizeof(server->address), "http://127.0.0.1:%u/%s/", port,
                 server->access.token);
    else
        snprintf(server->address, sizeof(server->address), "http://localhost/%s/",
                 server->access.token);
    server->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_AUTO, 0,
        take_connection, server, take_request, server, MHD_OPTION_NOTIFY_COMPLETED, forget_request,
        NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (server->daemon == NULL) {
        close(fd);
        return error_set(error, -EIO, "cannot start the server of the page");
    }
    return 0;
}

static void free_profiles(struct view_profiles *profiles)
{
    if (profiles != NULL)
        view_profiles_free(profiles);
    free(profiles);
}

static void take_profiles(struct view_server *server, struct view_profiles *profiles)
{
    view_sql_close(&server->sql);
    free_profiles(server->profiles);
    server->profiles = profiles;
    server->sql = (struct view_sql){server->paths, profiles->count, NULL, &server->waiting_for_sql};
    for (size_t i = 0; i < profiles->count; i++)
        server->paths[i] = profiles->items[i].path;
}

void view_server_replace(struct view_server *server, struct view_profiles *profiles)
{
    server->waiting_for_sql++;
    pthread_mutex_lock(&server->sql_lock);
    server->waiting_for_sql--;
    pthread_mutex_lock(&server->profiles_lock);
    take_profiles(server, profiles);
    server->generation++;
    pthread_mutex_unlock(&server->profiles_lock);
    pthread_mutex_unlock(&server->sql_lock);
}

struct view_server *view_server_start(struct view_profiles *profiles,
                                      const struct view_server_options *options,
                                      struct error *error)
{
    struct view_server *server = xcalloc(1, sizeof(*server));
    take_profiles(server, profiles);
    server->questions = options->questions;
    server->question_count = options->question_count;
    server->context = options->context;
    pthread_mutex_init(&server->profiles_lock, NULL);
    pthread_mutex_init(&server->sql_lock, NULL);
    perfetto_begin(&server->perfetto, &perfetto_ui_usual);
    if (server_start(server, options, error) < 0) {
        view_server_stop(server);
        return NULL;
    }
    return server;
}

const char *view_server_address(const struct view_server *server)
{
    return server->address;
}

uint64_t view_server_answers(const struct view_server *server)
{
    return server->answers;
}

void view_server_stop(struct view_server *server)
{
    server->waiting_for_sql++; /* for good: a query would keep its thread for up to a minute */
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    perfetto_end(&server->perfetto);
    view_sql_close(&server->sql);
    free_profiles(server->profiles);
    if (server->socket_path != NULL)
        unlink(server->socket_path);
    socket_without_memory = NULL;
    free(server->socket_path);
    free(server);
}
