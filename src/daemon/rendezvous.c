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

int rendezvous_open(struct rendezvous *rendezvous, int epoll, struct error *error)
{
    rendezvous->listener = -1;
    rendezvous->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rendezvous->epoll = epoll;
    rendezvous->peer_count = 0;
    rendezvous->path[0] = 0;
    int code = make_directory(rendezvous);
    if (code < 0)
        return error_set(error, code,
                         "cannot make a directory for the profiler's socket in $TMPDIR or /tmp: %s",
                         strerror(-code));

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, rendezvous->path, sizeof(address.sun_path));
    rendezvous->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (rendezvous->listener < 0 ||
        bind(rendezvous->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        /* Children that have become another user must get in, and find nothing else. */
        chmod(rendezvous->path, 0666) < 0 || chmod(rendezvous->directory, 0711) < 0 ||
        listen(rendezvous->listener, SOMAXCONN) < 0)
        code = -errno;
    else
        code = watch(rendezvous, rendezvous->listener);
    if (code < 0) {
        error_set(error, code, "cannot listen on the profiler's socket %s: %s", rendezvous->path,
                  strerror(-code));
        rendezvous_close(rendezvous);
    }
    return code;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    while (rendezvous->peer_count > 0)
        close(rendezvous->peers[--rendezvous->peer_count].fd);
    if (rendezvous->listener >= 0)
        close(rendezvous->listener);
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    rendezvous->listener = rendezvous->spare = -1;
    if (rendezvous->directory[0] != 0) {
        unlink(rendezvous->path);
        rmdir(rendezvous->directory);
    }
    rendezvous->directory[0] = 0;
}

static void drop_peer(struct rendezvous *rendezvous, unsigned index)
{
    close(rendezvous->peers[index].fd);
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

/* Whether the peer has been dealt with and is to be dropped. */
static bool serve_peer(const struct rendezvous_peer *peer, rendezvous_answer *answer, void *context)
{
    struct handshake_hello hello;
    ssize_t got = recv(peer->fd, &hello, sizeof(hello), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got != sizeof(hello))
        return true;
    struct handshake_reply reply;
    int memfd = -1;
    if (answer(context, peer->pid, peer->uid, &hello, &reply, &memfd) >= 0)
        send_reply(peer->fd, &reply, memfd);
    if (memfd >= 0)
        close(memfd);
    return true;
}

/* No descriptor is left for a peer. It is taken up with the spare one and let go,
 * so that it runs on unprofiled at once, and the listener is not ready for ever. */
static void turn_away(struct rendezvous *rendezvous)
{
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    rendezvous->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_peers(struct rendezvous *rendezvous, rendezvous_answer *answer, void *context)
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
            close(peer.fd);
            continue;
        }
        peer.pid = credentials.pid;
        peer.uid = credentials.uid;
        /* Mostly the hello is there already. */
        if (serve_peer(&peer, answer, context) || watch(rendezvous, peer.fd) < 0) {
            close(peer.fd);
            continue;
        }
        rendezvous->peers[rendezvous->peer_count++] = peer;
    }
}

bool rendezvous_serve(struct rendezvous *rendezvous, int fd, rendezvous_answer *answer,
                      void *context)
{
    if (fd == rendezvous->listener) {
        accept_peers(rendezvous, answer, context);
        return true;
    }
    for (unsigned i = 0; i < rendezvous->peer_count; i++) {
        if (rendezvous->peers[i].fd != fd)
            continue;
        if (serve_peer(&rendezvous->peers[i], answer, context))
            drop_peer(rendezvous, i);
        return true;
    }
    return false;
}

uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
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
