/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the sockets of all sessions, checks their owners, and asks each for its status. */
#include "cli/record/session_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sockets/daemon_client.h"
#include "daemon/sockets/run_directory.h"
#include "daemon/sockets/session_directory.h"
#include "util/array.h"

#define STATUS_PATIENCE_S 2

const Heapprofd__ControlStatus *session_server_status(const struct session_server *server)
{
    return server->reply != NULL ? server->reply->status : NULL;
}

/* Check the listener's user. In a user's directory it must be that user, because root searches all
 * directories. A daemon must be root's or our own. */
static int check_peer(int fd, uid_t owner, pid_t *pid, struct error *error)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return error_set(error, -errno, "cannot determine which user listens there: %s",
                         strerror(errno));
    *pid = peer.pid;
    if (owner == (uid_t)-1 && peer.uid != 0 && peer.uid != geteuid())
        return error_set(error, -EPERM, "the daemon there belongs to user %u", (unsigned)peer.uid);
    if (owner != (uid_t)-1 && peer.uid != owner)
        return error_set(error, -EPERM, "user %u listens in a directory of user %u",
                         (unsigned)peer.uid, (unsigned)owner);
    return 0;
}

static Heapprofd__ControlReply *ask(const struct session_server *server, unsigned patience_s,
                                    const Heapprofd__ControlRequest *request, pid_t *pid,
                                    struct error *error)
{
    Heapprofd__ControlReply *reply = NULL;
    int fd = daemon_connect_to(server->path, 0, patience_s, error);
    if (fd < 0)
        return NULL;
    if (check_peer(fd, server->owner, pid, error) == 0 && daemon_send(fd, request, -1, error) == 0)
        reply = daemon_receive(fd, error);
    close(fd);
    return reply;
}

Heapprofd__ControlReply *session_server_ask(const struct session_server *server,
                                            const Heapprofd__ControlRequest *request,
                                            struct error *error)
{
    pid_t pid;
    return ask(server, 0, request, &pid, error);
}

static bool is_known(const struct session_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->servers[i].pid == pid)
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

/* Ask a server for its status and append it. Return false if the server has ended. */
static bool append(struct session_list *list, struct session_server *server)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    request.has_status = request.status = true;
    pid_t peer = server->pid;
    server->reply = ask(server, STATUS_PATIENCE_S, &request, &peer, &server->error);
    /* If it does not answer, only the socket's peer tells its pid. */
    if (server->pid == 0)
        server->pid = peer;
    const Heapprofd__ControlStatus *status = session_server_status(server);
    if (status == NULL && is_absent(server->error.code))
        return false;
    if (status != NULL) {
        server->is_daemon = !status->own_session_alone;
        /* The pid was reused, or another user listens there. */
        bool is_other = server->owner != (uid_t)-1 && status->pid != server->pid;
        server->pid = status->pid;
        if (is_other || is_known(list, server->pid)) {
            heapprofd__control_reply__free_unpacked(server->reply, NULL);
            return !is_other;
        }
    }
    if (ARRAY_RESERVE(&list->servers, &list->capacity, list->count, 8) == 0)
        list->servers[list->count++] = *server;
    else
        heapprofd__control_reply__free_unpacked(server->reply, NULL);
    return true;
}

static bool visit(void *context, pid_t pid, uid_t owner, const char *socket)
{
    struct session_list *list = context;
    struct session_server server = {.pid = pid, .owner = owner};
    if (is_known(list, pid) || strlen(socket) >= sizeof(server.path))
        return true;
    strcpy(server.path, socket);
    return append(list, &server);
}

void session_list_read(struct session_list *list)
{
    char directory[RUN_DIRECTORY_PATH_MAX];
    *list = (struct session_list){0};
    for (unsigned n = 0; n < 2; n++) {
        struct session_server server = {.is_daemon = true, .owner = (uid_t)-1};
        if (!run_directory_candidate(n, directory))
            continue;
        snprintf(server.path, sizeof(server.path), "%s/%s", directory, RUN_DIRECTORY_SOCKET);
        append(list, &server);
    }
    session_directory_visit(visit, list);
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
