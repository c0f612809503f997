/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to the sockets of all sessions, checks their owners, and polls them together. */
#include "tools/cli/record/session_list.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/sockets/daemon_client.h"
#include "recorder/sockets/run_directory.h"
#include "recorder/sockets/session_directory.h"
#include "tools/print/format.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "util/xmalloc.h"

#define STATUS_PATIENCE_MS 2000

const Heapprofd__ControlStatus *session_server_status(const struct session_server *server)
{
    return server->reply != NULL ? server->reply->status : NULL;
}

/* Check the listener's user. In a user's directory it must be that user, because root searches all
 * directories. A daemon must be root's or our own. */
static int check_peer(int fd, uid_t owner, struct ucred *peer, struct error *error)
{
    socklen_t length = sizeof(*peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) < 0)
        return error_set(error, -errno, "cannot determine which user listens there: %s",
                         strerror(errno));
    if (owner == (uid_t)-1 && peer->uid != 0 && peer->uid != geteuid())
        return error_set(error, -EPERM, "the daemon there belongs to user %u", (unsigned)peer->uid);
    if (owner != (uid_t)-1 && peer->uid != owner)
        return error_set(error, -EPERM, "user %u listens in a directory of user %u",
                         (unsigned)peer->uid, (unsigned)owner);
    return 0;
}

/* --- asking --- */

/* A question on its way. */
struct asked {
    struct session_question *question;
    int fd; /* -1: it is over */
    uint64_t deadline_ms;
};

/* Send the request over a connection (-1: make one). */
static void session_list_begin(struct asked *asked, int fd)
{
    struct session_question *question = asked->question;
    struct ucred peer;
    if (fd < 0)
        fd = daemon_connect_to(question->server->path, SOCK_NONBLOCK, 0, &question->error);
    if (fd >= 0 && (check_peer(fd, question->server->owner, &peer, &question->error) < 0 ||
                    daemon_send(fd, question->request, -1, &question->error) < 0)) {
        close(fd);
        fd = -1;
    }
    asked->fd = fd < 0 ? -1 : fd;
    asked->deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + question->patience_ms;
}

static void session_list_finish(struct asked *asked)
{
    close(asked->fd);
    asked->fd = -1;
}

/* Wait for the next answers. Return false if no question is left. */
static bool await(struct asked *asked, struct pollfd *polled, size_t count)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC), first_ms = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (asked[i].fd >= 0 && asked[i].deadline_ms <= now_ms) {
            error_set(&asked[i].question->error, -EAGAIN,
                      "the profiler does not answer: is it stopped?");
            session_list_finish(&asked[i]);
        }
        polled[i] = (struct pollfd){.fd = asked[i].fd, .events = POLLIN};
        if (asked[i].fd >= 0)
            first_ms = clock_earlier(first_ms, asked[i].deadline_ms);
    }
    if (first_ms == UINT64_MAX)
        return false;
    if (poll(polled, count, (int)(first_ms - now_ms)) <= 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        if (polled[i].revents == 0)
            continue;
        asked[i].question->reply = daemon_receive(asked[i].fd, &asked[i].question->error);
        session_list_finish(&asked[i]);
    }
    return true;
}

/* Ask over the given connections (-1, or NULL: make them), which are closed. */
static void session_list_ask(struct session_question *questions, size_t count,
                             const int *connections)
{
    struct asked *asked = xcalloc(count + 1, sizeof(*asked));
    struct pollfd *polled = xcalloc(count + 1, sizeof(*polled));
    for (size_t i = 0; i < count; i++) {
        questions[i].reply = NULL;
        questions[i].error = (struct error){0};
        asked[i].question = &questions[i];
        session_list_begin(&asked[i], connections != NULL ? connections[i] : -1);
    }
    while (await(asked, polled, count))
        continue;
    free(asked);
    free(polled);
}

void session_servers_ask(struct session_question *questions, size_t count)
{
    session_list_ask(questions, count, NULL);
}

/* --- finding --- */

/* Servers that are asked: of one other user, and in all. */
#define OTHERS_MAX 32u
#define SERVERS_MAX 512u

struct finding {
    struct session_list *list;
    int connections[SERVERS_MAX]; /* of the list's servers */
    uid_t latest;                 /* the other user whose servers were found last */
    unsigned of_latest, left_out;
};

static bool session_list_is_known(const struct session_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (pid != 0 && list->servers[i].pid == pid)
            return true;
    }
    return false;
}

/* Return whether nobody listens at a socket, or the listener is ending. */
static bool is_absent(int code)
{
    return code == -ENOENT || code == -ECONNREFUSED || code == -ENOTDIR || code == -EPIPE ||
           code == -ECONNRESET;
}

/* Connect to a server and append it. Return false if nobody listens there. */
static bool session_list_append(struct finding *finding, struct session_server *server)
{
    struct session_list *list = finding->list;
    struct ucred peer = {.uid = server->owner};
    int fd = daemon_connect_to(server->path, SOCK_NONBLOCK, 0, &server->error);
    if (fd < 0 && is_absent(fd))
        return false;
    if (fd >= 0 && check_peer(fd, server->owner, &peer, &server->error) < 0) {
        close(fd);
        fd = -1;
    }
    server->uid = peer.uid;
    if (peer.pid > 0)
        server->pid = peer.pid;
    bool is_wanted = !session_list_is_known(list, server->pid);
    if (is_wanted && list->count < SERVERS_MAX) {
        XARRAY_RESERVE(&list->servers, &list->capacity, list->count, 8);
        finding->connections[list->count] = fd;
        list->servers[list->count++] = *server;
    } else {
        finding->left_out += is_wanted;
        if (fd >= 0)
            close(fd);
    }
    return true;
}

static bool visit(void *context, pid_t pid, uid_t owner, const char *socket)
{
    struct finding *finding = context;
    struct session_server server = {.pid = pid, .owner = owner};
    if (strlen(socket) >= sizeof(server.path))
        return true;
    if (owner != finding->latest)
        finding->of_latest = 0;
    finding->latest = owner;
    if (owner != geteuid() && finding->of_latest++ >= OTHERS_MAX) {
        finding->left_out++;
        return true;
    }
    strcpy(server.path, socket);
    return session_list_append(finding, &server);
}

/* --- what a server says --- */

bool session_server_is_strangers(const struct session_server *server)
{
    return server->uid != geteuid() && !server->is_daemon;
}

/* Return whether a process is of that user. */
static bool is_of(pid_t pid, uid_t uid)
{
    struct process_status status;
    return pid > 0 && process_status_read(pid, &status) == 0 &&
           (status.uid[0] == uid || status.uid[1] == uid);
}

/* Replace what another user's server claims by what the kernel knows: its user and process, and
 * only processes of that user. */
static void correct(const struct session_server *server, Heapprofd__ControlStatus *status)
{
    status->pid = server->pid;
    for (size_t i = 0; i < status->n_sessions; i++) {
        Heapprofd__ControlSession *session = status->sessions[i];
        size_t kept = 0;
        session->uid = server->uid;
        session->pid = session->requester_pid = server->pid;
        for (size_t j = 0; j < session->n_processes; j++) {
            Heapprofd__ControlProcess *process = session->processes[j];
            if (is_of(process->pid, server->uid))
                session->processes[kept++] = process;
            else
                heapprofd__control_process__free_unpacked(process, NULL);
        }
        session->n_processes = kept;
    }
}

/* Take a server's answer. Return false if it has ended, or is not the one that was meant. */
static bool session_list_take(struct session_server *server, struct session_question *question)
{
    server->reply = question->reply;
    if (question->error.code != 0)
        server->error = question->error;
    const Heapprofd__ControlStatus *status = session_server_status(server);
    if (status == NULL)
        return !is_absent(server->error.code);
    server->is_daemon &= !status->own_session_alone;
    if (session_server_is_strangers(server))
        correct(server, server->reply->status);
    else
        server->pid = status->pid;
    return true;
}

static void ask_for_status(struct session_list *list, const int *connections)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    struct session_question *questions = xcalloc(list->count + 1, sizeof(*questions));
    size_t kept = 0;
    request.has_status = request.status = true;
    for (size_t i = 0; i < list->count; i++)
        questions[i] = (struct session_question){
            .server = &list->servers[i], .request = &request, .patience_ms = STATUS_PATIENCE_MS};
    session_list_ask(questions, list->count, connections);
    for (size_t i = 0; i < list->count; i++) {
        struct session_server server = list->servers[i];
        if (session_list_take(&server, &questions[i]))
            list->servers[kept++] = server;
        else
            heapprofd__control_reply__free_unpacked(server.reply, NULL);
    }
    list->count = kept;
    free(questions);
}

void session_list_warn(void)
{
    struct error problem;
    if (session_directory_has_problem(&problem))
        format_printf(stderr, "heap_profile: %s\n", problem.message);
}

void session_list_read(struct session_list *list)
{
    char directory[RUN_DIRECTORY_PATH_MAX];
    struct finding finding = {.list = list, .latest = geteuid()};
    *list = (struct session_list){0};
    for (unsigned n = 0; n < 2; n++) {
        struct session_server server = {.is_daemon = true, .owner = (uid_t)-1};
        if (!run_directory_candidate(n, directory))
            continue;
        snprintf(server.path, sizeof(server.path), "%s/%s", directory, RUN_DIRECTORY_SOCKET);
        session_list_append(&finding, &server);
    }
    session_directory_visit(visit, &finding);
    ask_for_status(list, finding.connections);
    session_list_warn();
    if (finding.left_out > 0)
        fprintf(stderr,
                "heap_profile: %u more places where a profiler could answer were left out: at most "
                "%u of another user are asked, and %u in all\n",
                finding.left_out, OTHERS_MAX, SERVERS_MAX);
}

void session_list_clear(struct session_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        heapprofd__control_reply__free_unpacked(list->servers[i].reply, NULL);
    free(list->servers);
    *list = (struct session_list){0};
}

const struct session_server *session_list_daemon(const struct session_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->servers[i].is_daemon)
            return &list->servers[i];
    }
    return NULL;
}
