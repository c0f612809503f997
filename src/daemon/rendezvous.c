/* See rendezvous.h. */
#include "daemon/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clock.h"

/* Connections taken up in one go, so that a flood of them does not keep the
 * rings waiting. */
#define ACCEPTS_AT_ONCE 64

static int make_directory(struct rendezvous *rendezvous)
{
    const char *base = getenv("TMPDIR");
    /* The socket's whole name must fit a sockaddr_un. */
    if (base == NULL || base[0] != '/' || strlen(base) > 60)
        base = "/tmp";
    for (int attempt = 0; attempt < 2; attempt++, base = "/tmp") {
        snprintf(rendezvous->directory, sizeof(rendezvous->directory), "%s/heapprofd-XXXXXX", base);
        if (mkdtemp(rendezvous->directory) != NULL) {
            snprintf(rendezvous->path, sizeof(rendezvous->path), "%s/socket",
                     rendezvous->directory);
            return 0;
        }
    }
    int code = -errno;
    rendezvous->directory[0] = 0;
    return code;
}

static int watch(const struct rendezvous *rendezvous, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(rendezvous->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Whoever knows the socket may connect: children that have become another user, processes of
 * all users. Who they are, the kernel says. */
static int listen_at_path(struct rendezvous *rendezvous)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, rendezvous->path, sizeof(address.sun_path));
    rendezvous->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (rendezvous->listener < 0 ||
        bind(rendezvous->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        chmod(rendezvous->path, 0666) < 0 || listen(rendezvous->listener, SOMAXCONN) < 0)
        return -errno;
    if (rendezvous->directory[0] != 0 && chmod(rendezvous->directory, 0711) < 0)
        return -errno;
    return 0;
}

int rendezvous_open(struct rendezvous *rendezvous, int epoll, const char *directory, int listener,
                    struct error *error)
{
    rendezvous->listener = listener;
    rendezvous->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rendezvous->epoll = epoll;
    rendezvous->peer_count = 0;
    rendezvous->path[0] = rendezvous->directory[0] = 0;
    int code = 0;
    if (directory == NULL && listener < 0 && (code = make_directory(rendezvous)) < 0)
        return error_set(error, code,
                         "cannot make a directory for the profiler's socket in $TMPDIR or /tmp: %s",
                         strerror(-code));
    if (directory != NULL && listener < 0 &&
        (size_t)snprintf(rendezvous->path, sizeof(rendezvous->path), "%s/socket", directory) >=
            sizeof(rendezvous->path)) {
        rendezvous->path[0] = 0;
        return error_set(error, -ENAMETOOLONG, "the name of the run directory %s is too long",
                         directory);
    }
    if (listener < 0)
        code = listen_at_path(rendezvous);
    if (code == 0)
        code = watch(rendezvous, rendezvous->listener);
    if (code < 0) {
        error_set(error, code, "cannot listen on the profiler's socket %s: %s",
                  rendezvous->path[0] != 0 ? rendezvous->path : "that was passed to it",
                  strerror(-code));
        rendezvous_close(rendezvous);
    }
    return code;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    while (rendezvous->peer_count > 0)
        rendezvous_end_connection(rendezvous, rendezvous->peers[--rendezvous->peer_count].fd);
    peer_sockets_clear(&rendezvous->ending);
    if (rendezvous->listener >= 0)
        close(rendezvous->listener);
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    rendezvous->listener = rendezvous->spare = -1;
    if (rendezvous->path[0] != 0)
        unlink(rendezvous->path);
    if (rendezvous->directory[0] != 0)
        rmdir(rendezvous->directory);
    rendezvous->directory[0] = rendezvous->path[0] = 0;
}

void rendezvous_end_connection(struct rendezvous *rendezvous, int fd)
{
    /* It may live on for a while in `ending`, or in a child that forked. */
    epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, fd, NULL);
    peer_sockets_close(&rendezvous->ending, fd);
}

static void drop_peer(struct rendezvous *rendezvous, unsigned index)
{
    rendezvous_end_connection(rendezvous, rendezvous->peers[index].fd);
    rendezvous->peers[index] = rendezvous->peers[--rendezvous->peer_count];
}

static void send_reply(int fd, const struct handshake_reply *reply, int memfd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = (void *)reply, .iov_len = sizeof(*reply)};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (memfd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &memfd, sizeof(int));
    }
    /* A peer that cannot take it is dead, or will run unprofiled. */
    sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum served { SERVED_WAITS, SERVED_DROP, SERVED_HANDED_ON };

static enum served serve_peer(const struct rendezvous *rendezvous,
                              const struct rendezvous_peer *peer, rendezvous_answer *answer,
                              void *context, rendezvous_request *request, void *request_context)
{
    struct peer_message message;
    if (peer_socket_peek(peer->fd, &message) < 0)
        return errno == EAGAIN || errno == EINTR ? SERVED_WAITS : SERVED_DROP;
    if (request != NULL && request_is_one(message.bytes, message.length)) {
        epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
        request(request_context, peer->fd, &message);
        return SERVED_HANDED_ON;
    }
    struct handshake_hello hello;
    if (message.length != sizeof(hello) || message.has_descriptors)
        return SERVED_DROP;
    peer_socket_skip(peer->fd);
    memcpy(&hello, message.bytes, sizeof(hello));
    struct handshake_reply reply;
    int memfd = -1;
    if (answer(context, peer->pid, peer->uid, &hello, &reply, &memfd) >= 0)
        send_reply(peer->fd, &reply, memfd);
    if (memfd >= 0)
        close(memfd);
    return SERVED_DROP;
}

/* No descriptor is left for a peer. It is taken up with the spare one and let go,
 * so that it runs on unprofiled at once, and the listener is not ready for ever. */
static void turn_away(struct rendezvous *rendezvous)
{
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        rendezvous_end_connection(rendezvous, fd);
    rendezvous->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_peers(struct rendezvous *rendezvous, rendezvous_answer *answer, void *context,
                         rendezvous_request *request, void *request_context)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        /* Whoever has been silent longest makes room. */
        if (rendezvous->peer_count == RENDEZVOUS_PEERS_MAX)
            drop_peer(rendezvous, 0);
        struct rendezvous_peer peer = {
            .fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK),
            .deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + RENDEZVOUS_PATIENCE_MS,
        };
        if (peer.fd < 0) {
            if (errno != EMFILE && errno != ENFILE)
                return;
            turn_away(rendezvous);
            continue;
        }
        struct ucred credentials;
        socklen_t length = sizeof(credentials);
        if (getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
            rendezvous_end_connection(rendezvous, peer.fd);
            continue;
        }
        peer.pid = credentials.pid;
        peer.uid = credentials.uid;
        /* Mostly the hello is there already. */
        enum served served =
            serve_peer(rendezvous, &peer, answer, context, request, request_context);
        if (served == SERVED_HANDED_ON)
            continue;
        if (served == SERVED_DROP || watch(rendezvous, peer.fd) < 0) {
            rendezvous_end_connection(rendezvous, peer.fd);
            continue;
        }
        rendezvous->peers[rendezvous->peer_count++] = peer;
    }
}

bool rendezvous_serve(struct rendezvous *rendezvous, int fd, rendezvous_answer *answer,
                      void *context, rendezvous_request *request, void *request_context)
{
    if (fd == rendezvous->listener) {
        accept_peers(rendezvous, answer, context, request, request_context);
        return true;
    }
    for (unsigned i = 0; i < rendezvous->peer_count; i++) {
        if (rendezvous->peers[i].fd != fd)
            continue;
        enum served served = serve_peer(rendezvous, &rendezvous->peers[i], answer, context, request,
                                        request_context);
        if (served == SERVED_DROP)
            drop_peer(rendezvous, i);
        else if (served == SERVED_HANDED_ON)
            rendezvous->peers[i] = rendezvous->peers[--rendezvous->peer_count];
        return true;
    }
    return false;
}

uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms)
{
    uint64_t next_ms = peer_sockets_expire(&rendezvous->ending, now_ms);
    for (unsigned i = 0; i < rendezvous->peer_count;) {
        uint64_t deadline_ms = rendezvous->peers[i].deadline_ms;
        if (deadline_ms <= now_ms) {
            drop_peer(rendezvous, i);
            continue;
        }
        if (deadline_ms < next_ms)
            next_ms = deadline_ms;
        i++;
    }
    return next_ms;
}
