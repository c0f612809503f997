/* SPDX-License-Identifier: Apache-2.0 */
/* Connects, and names the remedy of each failure. */
#include "recorder/tracing/ipc/connect.h"

#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int explain(const struct tracing_socket *to, int code, struct error *error)
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

int tracing_connect(const struct tracing_socket *to, struct error *error)
{
    struct sockaddr_storage address;
    int length = tracing_socket_address(to->name, &address, error);
    if (length < 0)
        return length;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return explain(to, -errno, error);
    int result = 0;
    if (connect(fd, (const struct sockaddr *)&address, (socklen_t)length) < 0 &&
        errno != EINPROGRESS)
        result = explain(to, -errno, error);
    if (result == 0)
        result = check_owner(fd, to, error);
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

int tracing_connect_finish(int fd, const struct tracing_socket *to, struct error *error)
{
    int failure = 0;
    socklen_t length = sizeof(failure);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length) < 0)
        failure = errno;
    return failure == 0 ? 0 : explain(to, -failure, error);
}
