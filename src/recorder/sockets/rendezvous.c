/* SPDX-License-Identifier: Apache-2.0 */
/* Accept connections, answer hellos, hand requests on, and end connections. */
#include "recorder/sockets/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/sockets/control_messages.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/pass_descriptor.h"
#include "util/safe_directory.h"

/* Connections accepted in one go, so that a flood of them does not delay draining the rings. */
#define ACCEPTS_AT_ONCE 256

/* Connections that the kernel keeps, in order, until they are accepted; further ones wait in
 * connect(). Accepting and dropping one costs 13 us, so nobody waits long after a flood. */
#define BACKLOG 1024

/* Messages that are served in one turn, of all users together. */
#define SERVED_AT_ONCE 64

static int make_directory(struct rendezvous *rendezvous)
{
    const char *base = getenv("TMPDIR");
    /* The whole path of the socket must fit into a sockaddr_un. */
    if (base == NULL || base[0] != '/' || strlen(base) > 60)
        base = "/tmp";
    for (int attempt = 0; attempt < 2; attempt++, base = "/tmp") {
        /* The permissions are set by path below. */
        int safe = safe_directory_open(base, NULL);
        if (safe < 0) {
            errno = -safe;
            continue;
        }
        close(safe);
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

/* Return the number of connections that may be held: half of the descriptors, and at most
 * RENDEZVOUS_CONNECTIONS_MAX. */
static unsigned count_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 > RENDEZVOUS_CONNECTIONS_MAX)
        return RENDEZVOUS_CONNECTIONS_MAX;
    return (unsigned)(limit.rlim_cur / 2);
}

/* Listen at the socket's path. Every user may connect: children may have changed their user, and
 * processes of all users may be targets. The kernel reports the peer's credentials. */
static int listen_at_path(struct rendezvous *rendezvous)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, rendezvous->path, sizeof(address.sun_path));
    rendezvous->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (rendezvous->listener < 0 ||
        bind(rendezvous->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        chmod(rendezvous->path, 0666) < 0 || listen(rendezvous->listener, BACKLOG) < 0)
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
    connection_shares_init(&rendezvous->shares, count_places());
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
    /* The service manager listens at a passed socket already. Listen again: the kernel then gives
     * our pid to those who connect from now on, and they can check whether we live. */
    else if (listen(listener, BACKLOG) < 0)
        code = -errno;
    if (code == 0)
        code = event_loop_watch(epoll, EPOLL_CTL_ADD, rendezvous->listener, EPOLLIN);
    if (code < 0) {
        error_set(error, code, "cannot listen on the profiler's socket %s: %s",
                  rendezvous->path[0] != 0 ? rendezvous->path : "that was passed to it",
                  strerror(-code));
        rendezvous_close(rendezvous);
    }
    return code;
}

/* --- connections --- */

static void add_peer(struct rendezvous *rendezvous, int fd, const struct ucred *credentials)
{
    connection_shares_take(&rendezvous->shares, credentials->uid);
    rendezvous->peers[rendezvous->peer_count++] = (struct rendezvous_peer){
        .fd = fd,
        .pid = credentials->pid,
        .uid = credentials->uid,
        .deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + RENDEZVOUS_PATIENCE_MS,
    };
}

/* Return the peer with this descriptor, or NULL. */
static struct rendezvous_peer *find_peer(struct rendezvous *rendezvous, int fd)
{
    for (unsigned i = 0; i < rendezvous->peer_count; i++) {
        if (rendezvous->peers[i].fd == fd)
            return &rendezvous->peers[i];
    }
    return NULL;
}

static void close_connection(struct rendezvous *rendezvous, int fd)
{
    /* Its file may live on for a while in `ending`, or in a forked child. */
    epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, fd, NULL);
    peer_sockets_close(&rendezvous->ending, fd);
}

static void remove_peer(struct rendezvous *rendezvous, unsigned index)
{
    struct rendezvous_peer *peer = &rendezvous->peers[index];
    if (peer->state != RENDEZVOUS_ENDS)
        connection_shares_give_back(&rendezvous->shares, peer->uid);
    close_connection(rendezvous, peer->fd);
    *peer = rendezvous->peers[--rendezvous->peer_count];
}

/* End a connection. If it was handed on, only shut it down: its reader then ends it. */
static void drop_peer(struct rendezvous *rendezvous, unsigned index)
{
    struct rendezvous_peer *peer = &rendezvous->peers[index];
    if (peer->state == RENDEZVOUS_NEW || peer->state == RENDEZVOUS_SILENT) {
        remove_peer(rendezvous, index);
        return;
    }
    shutdown(peer->fd, SHUT_RDWR);
    connection_shares_give_back(&rendezvous->shares, peer->uid);
    peer->state = RENDEZVOUS_ENDS;
    peer->deadline_ms = UINT64_MAX;
}

bool rendezvous_is_in_turn(struct rendezvous *rendezvous, int fd)
{
    const struct rendezvous_peer *peer = find_peer(rendezvous, fd);
    return peer == NULL || connection_shares_serve(&rendezvous->shares, peer->uid);
}

void rendezvous_hold(struct rendezvous *rendezvous, int fd)
{
    struct rendezvous_peer *peer = find_peer(rendezvous, fd);
    if (peer != NULL && peer->state != RENDEZVOUS_ENDS) {
        peer->state = RENDEZVOUS_HELD;
        peer->deadline_ms = UINT64_MAX;
    }
}

void rendezvous_set_idle(struct rendezvous *rendezvous, int fd)
{
    struct rendezvous_peer *peer = find_peer(rendezvous, fd);
    if (peer != NULL && peer->state != RENDEZVOUS_ENDS) {
        peer->state = RENDEZVOUS_IDLE;
        peer->deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + RENDEZVOUS_IDLE_MS;
    }
}

void rendezvous_end_connection(struct rendezvous *rendezvous, int fd)
{
    const struct rendezvous_peer *peer = find_peer(rendezvous, fd);
    if (peer != NULL)
        remove_peer(rendezvous, (unsigned)(peer - rendezvous->peers));
    else
        close_connection(rendezvous, fd);
}

/* Drop the oldest connection of this user that is still waiting here. Return whether one was
 * dropped. */
static bool drop_silent_of(struct rendezvous *rendezvous, uid_t uid)
{
    unsigned chosen = RENDEZVOUS_PLACES;
    for (unsigned i = 0; i < rendezvous->peer_count; i++) {
        const struct rendezvous_peer *peer = &rendezvous->peers[i];
        if ((peer->state == RENDEZVOUS_NEW || peer->state == RENDEZVOUS_SILENT) &&
            peer->uid == uid &&
            (chosen == RENDEZVOUS_PLACES ||
             peer->deadline_ms < rendezvous->peers[chosen].deadline_ms))
            chosen = i;
    }
    if (chosen < RENDEZVOUS_PLACES)
        drop_peer(rendezvous, chosen);
    return chosen < RENDEZVOUS_PLACES;
}

/* Find the user with the most connections, if more than `held`, and drop the oldest of them that
 * may be dropped. Return whether one was dropped. */
static bool drop_of_the_greediest(struct rendezvous *rendezvous, unsigned held)
{
    unsigned chosen = RENDEZVOUS_PLACES;
    for (unsigned i = 0; i < rendezvous->peer_count; i++) {
        const struct rendezvous_peer *peer = &rendezvous->peers[i];
        if (peer->state == RENDEZVOUS_HELD || peer->state == RENDEZVOUS_ENDS)
            continue;
        unsigned holds = connection_shares_held(&rendezvous->shares, peer->uid);
        if (holds > held || (holds == held && chosen < RENDEZVOUS_PLACES &&
                             peer->deadline_ms < rendezvous->peers[chosen].deadline_ms)) {
            chosen = i;
            held = holds;
        }
    }
    if (chosen < RENDEZVOUS_PLACES)
        drop_peer(rendezvous, chosen);
    return chosen < RENDEZVOUS_PLACES;
}

/* Make room for another connection of this user. If all places are taken, send the peer the reason
 * and return false. */
static bool rendezvous_make_room(struct rendezvous *rendezvous, uid_t uid, int fd)
{
    char message[128];
    enum connection_share_answer answer = connection_shares_check(&rendezvous->shares, uid);
    unsigned held = connection_shares_held(&rendezvous->shares, uid);
    if (answer == CONNECTION_SHARE_USED_UP) {
        if (drop_silent_of(rendezvous, uid))
            return true;
        snprintf(message, sizeof(message),
                 "you hold %u connections to the daemon, as many as a user may: end one", held);
    } else {
        bool has_place = rendezvous->peer_count < RENDEZVOUS_PLACES;
        if (has_place &&
            (answer == CONNECTION_SHARE_FREE || drop_of_the_greediest(rendezvous, held)))
            return true;
        snprintf(message, sizeof(message), "the daemon has no connection left: try again");
    }
    control_send_error(fd, -EMFILE, message);
    return false;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    /* Connections that were handed on are ended by their readers. */
    for (unsigned i = rendezvous->peer_count; i-- > 0;) {
        if (rendezvous->peers[i].state == RENDEZVOUS_NEW ||
            rendezvous->peers[i].state == RENDEZVOUS_SILENT)
            remove_peer(rendezvous, i);
    }
    peer_sockets_clear(&rendezvous->ending);
    if (rendezvous->listener >= 0)
        close(rendezvous->listener);
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    rendezvous->listener = rendezvous->spare = rendezvous->epoll = -1;
    if (rendezvous->path[0] != 0)
        unlink(rendezvous->path);
    if (rendezvous->directory[0] != 0)
        rmdir(rendezvous->directory);
    rendezvous->directory[0] = rendezvous->path[0] = 0;
}

void rendezvous_reply(int fd, const struct handshake_reply *reply, int memfd)
{
    const struct iovec part = {.iov_base = (void *)reply, .iov_len = sizeof(*reply)};
    /* A peer that cannot receive it is dead, or will run unprofiled. */
    pass_descriptor(fd, &part, 1, memfd, MSG_DONTWAIT);
}

enum served { SERVED_WAITS, SERVED_DROP, SERVED_HANDED_ON };

static enum served serve_peer(struct rendezvous *rendezvous, struct rendezvous_peer *peer)
{
    const struct rendezvous_user *user = &rendezvous->user;
    struct peer_message message;
    if (peer_socket_peek(peer->fd, &message) < 0)
        return errno == EAGAIN || errno == EINTR ? SERVED_WAITS : SERVED_DROP;
    if (request_is_one(message.bytes, message.length)) {
        epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
        rendezvous_set_idle(rendezvous, peer->fd);
        /* This call may remove the peer. */
        user->request(user->context, peer->fd, &message);
        return SERVED_HANDED_ON;
    }
    struct handshake_hello hello;
    if (message.length != sizeof(hello) || message.has_descriptors)
        return SERVED_DROP;
    peer_socket_skip(peer->fd);
    memcpy(&hello, message.bytes, sizeof(hello));
    struct handshake_reply reply;
    int memfd = -1;
    int code = user->answer(user->context, peer->fd, peer->pid, peer->uid, &hello, &reply, &memfd);
    if (code == RENDEZVOUS_TAKEN_OVER) {
        epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
        rendezvous_hold(rendezvous, peer->fd);
        return SERVED_HANDED_ON;
    }
    if (code >= 0)
        rendezvous_reply(peer->fd, &reply, memfd);
    if (memfd >= 0)
        close(memfd);
    return SERVED_DROP;
}

/* No descriptor is left: accept a peer with the spare one, and close it. Otherwise the peer would
 * wait, and the listener would stay readable forever. */
static void turn_away(struct rendezvous *rendezvous)
{
    if (rendezvous->spare >= 0)
        close(rendezvous->spare);
    int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close_connection(rendezvous, fd);
    rendezvous->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Accept connections only while peer_sockets has room. Others wait in the kernel. */
static void pause_or_resume(struct rendezvous *rendezvous)
{
    bool is_paused = peer_sockets_are_full(&rendezvous->ending);
    if (is_paused == rendezvous->is_paused)
        return;
    event_loop_watch(rendezvous->epoll, EPOLL_CTL_MOD, rendezvous->listener,
                     is_paused ? 0 : EPOLLIN);
    rendezvous->is_paused = is_paused;
}

static void accept_peers(struct rendezvous *rendezvous)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE && !peer_sockets_are_full(&rendezvous->ending); i++) {
        struct ucred credentials;
        socklen_t length = sizeof(credentials);
        int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EMFILE && errno != ENFILE)
                return;
            turn_away(rendezvous);
            continue;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0 ||
            !rendezvous_make_room(rendezvous, credentials.uid, fd)) {
            close_connection(rendezvous, fd);
            continue;
        }
        add_peer(rendezvous, fd, &credentials);
    }
}

void rendezvous_begin_turn(struct rendezvous *rendezvous)
{
    connection_shares_begin_turn(&rendezvous->shares);
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    unsigned count = rendezvous->peer_count, served = 0;
    for (unsigned i = 0; i < count && served < SERVED_AT_ONCE; i++) {
        if (rendezvous->next_peer >= rendezvous->peer_count)
            rendezvous->next_peer = 0;
        struct rendezvous_peer *peer = &rendezvous->peers[rendezvous->next_peer];
        if (peer->state != RENDEZVOUS_NEW ||
            !connection_shares_serve(&rendezvous->shares, peer->uid)) {
            rendezvous->next_peer++;
            continue;
        }
        served++;
        /* The hello has usually arrived already. */
        peer->state = RENDEZVOUS_SILENT;
        peer->deadline_ms = now_ms + RENDEZVOUS_PATIENCE_MS;
        int fd = peer->fd;
        enum served outcome = serve_peer(rendezvous, peer);
        if (outcome == SERVED_DROP ||
            (outcome == SERVED_WAITS &&
             event_loop_watch(rendezvous->epoll, EPOLL_CTL_ADD, fd, EPOLLIN) < 0))
            rendezvous_end_connection(rendezvous, fd);
        else
            rendezvous->next_peer++;
    }
}

bool rendezvous_serve(struct rendezvous *rendezvous, int fd)
{
    if (fd == rendezvous->listener) {
        accept_peers(rendezvous);
        return true;
    }
    struct rendezvous_peer *peer = find_peer(rendezvous, fd);
    if (peer == NULL || peer->state != RENDEZVOUS_SILENT)
        return false;
    if (!connection_shares_serve(&rendezvous->shares, peer->uid))
        return true;
    if (serve_peer(rendezvous, peer) == SERVED_DROP)
        rendezvous_end_connection(rendezvous, fd);
    return true;
}

uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms)
{
    uint64_t next_ms = peer_sockets_expire(&rendezvous->ending, now_ms);
    pause_or_resume(rendezvous);
    for (unsigned i = 0; i < rendezvous->peer_count;) {
        uint64_t deadline_ms = rendezvous->peers[i].deadline_ms;
        if (rendezvous->peers[i].state == RENDEZVOUS_NEW) {
            /* Its deadline begins with its turn. */
            deadline_ms = now_ms;
        } else if (deadline_ms <= now_ms) {
            drop_peer(rendezvous, i);
            continue;
        }
        next_ms = clock_earlier(next_ms, deadline_ms);
        i++;
    }
    return next_ms;
}
