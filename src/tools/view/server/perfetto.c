/* SPDX-License-Identifier: Apache-2.0 */
/* Judges requests for the trace, and sends it from its descriptor. */
#include "tools/view/server/perfetto.h"

#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/view/server/listen.h"
#include "tools/view/server/peer.h"
#include "util/base_name.h"
#include "util/process_files.h"
#include "util/regular_file.h"

/* Names the program that listens on a port, for the message that the port is taken. */

struct port_owner {
    char words[96]; /* " (python3, process 123)", " (of user 1000)"; "": unknown */
};

#define DESCRIPTORS_MAX 4096u /* of a process that are looked at */
#define LISTENING 0x0au

struct listener {
    unsigned long inode; /* 0: not found */
    unsigned user;
};

/* Find the listening socket in a table of the kernel's. Lines: "sl local:port remote:port state
 * queues timer retransmits user timeout inode". */
static void find_socket(const char *table, uint16_t port, struct listener *listener)
{
    char line[512];
    FILE *file = fopen(table, "re");
    while (file != NULL && listener->inode == 0 && fgets(line, sizeof(line), file) != NULL) {
        unsigned local, state, user;
        unsigned long inode;
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %u %*u %lu",
                   &local, &state, &user, &inode) == 4 &&
            local == port && state == LISTENING)
            *listener = (struct listener){inode, user};
    }
    if (file != NULL)
        fclose(file);
}

static bool has_socket(pid_t pid, const char *socket)
{
    char path[64], target[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    bool found = false;
    for (size_t i = 0;
         directory != NULL && !found && i < DESCRIPTORS_MAX && (entry = readdir(directory)) != NULL;
         i++) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Return the process that has the socket; 0: none that this user may look at. */
static pid_t find_process(unsigned long inode)
{
    char socket[48];
    snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
    DIR *proc = opendir("/proc");
    pid_t pid = 0;
    while (proc != NULL && (pid = process_list_next(proc)) > 0 && !has_socket(pid, socket))
        ;
    if (proc != NULL)
        closedir(proc);
    return pid;
}

/* Find the program with the TCP port, by /proc. Of other users' programs only the user is known. */
static void port_owner_find(uint16_t port, struct port_owner *owner)
{
    struct listener listener = {0};
    char name[32] = "";
    owner->words[0] = '\0';
    find_socket("/proc/net/tcp", port, &listener);
    if (listener.inode == 0)
        find_socket("/proc/net/tcp6", port, &listener);
    if (listener.inode == 0)
        return;
    pid_t pid = find_process(listener.inode);
    if (pid > 0 && process_file_read(pid, "comm", name, sizeof(name)) > 0) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(owner->words, sizeof(owner->words), " (%s, process %d)", name, (int)pid);
    } else {
        snprintf(owner->words, sizeof(owner->words), " (of user %u)", listener.user);
    }
}

#define CONNECTIONS_MAX 16u
#define IDLE_SECONDS 30u
#define CONNECTION_BYTES (32u << 10) /* of a request's line and header lines */

const struct perfetto_ui perfetto_ui_usual = {PERFETTO_UI, PERFETTO_UI};

/* --- who may ask --- */

/* Return the end of "http://host:port", or NULL if that is not how the address begins. */
static const char *origin_end(const char *address)
{
    static const char *const schemes[] = {"https://", "http://"};
    const char *host = NULL;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]) && host == NULL; i++)
        if (strncmp(address, schemes[i], strlen(schemes[i])) == 0)
            host = address + strlen(schemes[i]);
    if (host == NULL)
        return NULL;
    const char *end =
        host + strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
    if (end > host && *end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    return end > host && (*end == '\0' || *end == '/') ? end : NULL;
}

/* A browser names an origin in lower case, and without the scheme's usual port. */
static void take_origin(char origin[PERFETTO_UI_BYTES], const char *address, const char *end)
{
    snprintf(origin, PERFETTO_UI_BYTES, "%.*s", (int)(end - address), address);
    for (char *at = origin; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    char *port = strrchr(origin, ':');
    if (strcmp(port, strncmp(origin, "https:", 6) == 0 ? ":443" : ":80") == 0)
        *port = '\0';
}

int perfetto_ui_parse(struct perfetto_ui *ui, const char *address, struct error *error)
{
    static const char path[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "/._~-";
    const char *end = origin_end(address);
    size_t length = strlen(address);
    if (end == NULL || end[strspn(end, path)] != '\0' || length >= PERFETTO_UI_BYTES)
        return error_set(error, -EINVAL,
                         "'%.100s' is no address of Perfetto UI: it begins with http:// or "
                         "https:// and has a host, as in http://localhost:10000",
                         address);
    take_origin(ui->origin, address, end);
    while (length > (size_t)(end - address) && address[length - 1] == '/')
        length--;
    snprintf(ui->address, sizeof(ui->address), "%.*s", (int)length, address);
    return 0;
}

enum perfetto_answer perfetto_judge(const struct access *access, const char *origin,
                                    const char *name, const struct perfetto_request *request)
{
    char host[32];
    snprintf(host, sizeof(host), "127.0.0.1:%u", access->port);
    if (request->host == NULL || strcmp(request->host, host) != 0)
        return PERFETTO_WRONG_HOST;
    if (request->path[0] != '/' || !access_has_token(access, request->path + 1) ||
        strcmp(request->path + 1 + ACCESS_TOKEN_LENGTH + 1, name) != 0)
        return PERFETTO_WRONG_PATH;
    if (request->origin != NULL && strcmp(request->origin, origin) != 0)
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
static struct MHD_Response *make_file(const struct perfetto *perfetto, int fd, uint64_t length)
{
    const struct header headers[] = {
        {"Access-Control-Allow-Origin", perfetto->ui.origin},
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
static enum MHD_Result send_preflight(const struct perfetto *perfetto,
                                      struct MHD_Connection *connection)
{
    const struct header headers[] = {
        {"Access-Control-Allow-Origin", perfetto->ui.origin},
        {"Access-Control-Allow-Methods", "GET, HEAD"},
        {"Access-Control-Allow-Private-Network", "true"},
    };
    return send_once(connection, MHD_HTTP_NO_CONTENT, "", headers,
                     sizeof(headers) / sizeof(headers[0]));
}

/* Other sites cannot read the sentence: it has no Access-Control-Allow-Origin. */
static enum MHD_Result perfetto_refuse(struct MHD_Connection *connection, enum perfetto_answer why)
{
    static const struct header headers[] = {{"Content-Type", "text/plain"},
                                            {"Allow", "GET, HEAD, OPTIONS"}};
    static const char *const words[] = {
        [PERFETTO_WRONG_HOST] = "the request names another host\n",
        [PERFETTO_WRONG_PATH] = "there is no trace at this address: ask heap_profile view for it "
                                "again\n",
        [PERFETTO_WRONG_ORIGIN] = "the trace is for Perfetto UI only\n",
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
    enum perfetto_answer answer =
        perfetto_judge(&perfetto->access, perfetto->ui.origin, perfetto->name, &request);
    if (answer == PERFETTO_FILE) /* holds the response until it is sent */
        result = MHD_queue_response(connection, MHD_HTTP_OK, perfetto->file);
    pthread_mutex_unlock(&perfetto->lock);
    if (answer == PERFETTO_FILE && strcmp(method, "GET") == 0)
        *state = &perfetto->file;
    if (answer == PERFETTO_PREFLIGHT)
        return send_preflight(perfetto, connection);
    return answer == PERFETTO_FILE ? result : perfetto_refuse(connection, answer);
}

static void end_request(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode how)
{
    struct perfetto *perfetto = context;
    (void)connection;
    if (*state == &perfetto->file && how == MHD_REQUEST_TERMINATED_COMPLETED_OK &&
        perfetto->sent != NULL)
        perfetto->sent(perfetto->context);
}

/* --- the file --- */

/* Open a file that is a trace. Return its descriptor or a negative errno. */
static int open_trace(const char *path, struct error *error)
{
    char opened[32];
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return error_set(error, fd, "cannot open '%.300s': %s", path,
                         fd == -EINVAL ? "not a regular file" : strerror(-fd));
    snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
    enum import_kind kind = import_kind_of_file(opened);
    if (kind == IMPORT_TRACE)
        return fd;
    close(fd);
    return error_set(error, -EINVAL, "'%.300s' is %s: Perfetto UI can open traces only", path,
                     import_kind_words(kind));
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

void perfetto_begin(struct perfetto *perfetto, const struct perfetto_ui *ui)
{
    *perfetto = (struct perfetto){.ui = *ui};
    pthread_mutex_init(&perfetto->lock, NULL);
}

static int explain_taken(const struct perfetto *perfetto, struct error *error)
{
    struct port_owner owner;
    port_owner_find(PERFETTO_PORT, &owner);
    return error_set(error, -EADDRINUSE,
                     "another program has port %u of 127.0.0.1%s, the only one that Perfetto UI "
                     "reads from: end that program (another view, or trace_processor), or open "
                     "the trace's file in %s",
                     PERFETTO_PORT, owner.words, perfetto->ui.address);
}

static int perfetto_start(struct perfetto *perfetto, struct error *error)
{
    uint16_t port;
    int fd = view_listen_on_port(PERFETTO_PORT, &port, error);
    if (fd == -EADDRINUSE)
        return explain_taken(perfetto, error);
    if (fd < 0)
        return fd;
    perfetto->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, take_connection, NULL, take_request,
        perfetto, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_COMPLETED, end_request, perfetto,
        MHD_OPTION_END);
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
    if (perfetto->daemon == NULL && (code = perfetto_start(perfetto, error)) < 0)
        return code;
    if (perfetto->file != NULL)
        MHD_destroy_response(perfetto->file);
    perfetto->file = file;
    perfetto->access = access;
    take_name(perfetto->name, path);
    return 0;
}

int perfetto_serve_file(struct perfetto *perfetto, int fd, const char *path,
                        char url[PERFETTO_URL_BYTES], struct error *error)
{
    struct stat status;
    struct MHD_Response *file = NULL;
    if (fstat(fd, &status) == 0)
        file = make_file(perfetto, fd, (uint64_t)status.st_size);
    if (file == NULL) {
        close(fd);
        return error_set(error, -ENOMEM, "not enough memory to send '%.300s'", path);
    }
    pthread_mutex_lock(&perfetto->lock);
    int code = replace(perfetto, path, file, error);
    if (code == 0)
        snprintf(url, PERFETTO_URL_BYTES, "%s/#!/?url=http://127.0.0.1:%u/%s/%s",
                 perfetto->ui.address, PERFETTO_PORT, perfetto->access.token, perfetto->name);
    pthread_mutex_unlock(&perfetto->lock);
    if (code < 0)
        MHD_destroy_response(file);
    return code;
}

int perfetto_serve(struct perfetto *perfetto, const char *path, char url[PERFETTO_URL_BYTES],
                   struct error *error)
{
    int fd = open_trace(path, error);
    return fd < 0 ? fd : perfetto_serve_file(perfetto, fd, path, url, error);
}

void perfetto_end(struct perfetto *perfetto)
{
    if (perfetto->daemon != NULL)
        MHD_stop_daemon(perfetto->daemon);
    if (perfetto->file != NULL)
        MHD_destroy_response(perfetto->file);
    pthread_mutex_destroy(&perfetto->lock);
}
