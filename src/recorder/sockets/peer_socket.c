/* SPDX-License-Identifier: Apache-2.0 */
/* Peek at messages, and hand connections with slow descriptors to children. */
#include "recorder/sockets/peer_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/priority.h"

/*
 * Closes descriptors whose last close may take as long as a stranger likes, in a child that nobody
 * waits for.
 *
 * The child keeps only these descriptors: however long it takes, it holds no connection, lock or
 * listener of others. It ends as soon as this process has closed its own copies, so the last close
 * is the kernel's while the child ends, which does not wait for a socket with SO_LINGER. A file on
 * FUSE can keep the child in the kernel until its server answers.
 *
 * A pipe tells the child when to end. The child makes system calls only: it is a copy of one thread
 * of a process that may have more.
 */

/* Close all other descriptors. The first ones are in ascending order. */
static void keep_only(const int *fds, unsigned count, int pipe)
{
    unsigned next = 0;
    for (unsigned i = 0; i <= count; i++) {
        unsigned end = i < count ? (unsigned)fds[i] : ~0U;
        if ((unsigned)pipe >= next && (unsigned)pipe < end) {
            if ((unsigned)pipe > next)
                close_descriptors(next, (unsigned)pipe - 1);
            next = (unsigned)pipe + 1;
        }
        if (end > next)
            close_descriptors(next, end == ~0U ? end : end - 1);
        next = end + 1;
    }
}

static _Noreturn void hold(const int *fds, unsigned count, int pipe)
{
    struct pollfd closed = {.fd = pipe};
    keep_only(fds, count, pipe);
    while ((closed.revents & (POLLHUP | POLLNVAL)) == 0)
        syscall(SYS_ppoll, &closed, 1, NULL, NULL, sizeof(unsigned long));
    for (;;)
        syscall(SYS_exit_group, 0);
}

static int compare_fds(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

/* Start a child that closes the descriptors (sorted by this call), and close them here. Return its
 * pid, for waitpid() with __WALL: its end sends no SIGCHLD, because programs that embed the
 * profiler wait for that signal. Return -1, with all of them still open, if no child can be
 * started. */
static pid_t closing_child_start(int *fds, unsigned count)
{
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) < 0)
        return -1;
    qsort(fds, count, sizeof(*fds), compare_fds);
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
    if (child == 0)
        hold(fds, count, pipe[0]);
    close(pipe[0]);
    if (child > 0) {
        priority_restore(child);
        /* The child still has them, so these closes do not wait. */
        for (unsigned i = 0; i < count; i++)
            close(fds[i]);
    }
    close(pipe[1]);
    return child;
}

/* A flood of such connections costs one fork for each PEER_SOCKETS_PARKED_AT_ONCE of them, or for
 * each period of this length. It is also the time that the peer has to read why its connection
 * ends. */
#define ENDING_DELAY_MS 20

/* Time between attempts to start a child. */
#define AGAIN_MS 50

/* Period of checks whether a child has ended: a descriptor may delay that for long. */
#define REAP_PERIOD_MS 100

/* Number of messages that fit into a socket's buffer. There is usually one. */
#define LEFT_MAX 1024

ssize_t peer_socket_peek(int fd, struct peer_message *message)
{
    struct iovec vector = {.iov_base = message->bytes, .iov_len = sizeof(message->bytes)};
    /* Without room for control messages the kernel reports only their existence. */
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno == ECONNRESET) /* reported once, and the messages are still there */
        got = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
    message->length = got < 0 || (header.msg_flags & MSG_TRUNC) != 0 ? 0 : (size_t)got;
    message->has_descriptors = got >= 0 && (header.msg_flags & MSG_CTRUNC) != 0;
    return got;
}

void peer_socket_skip(int fd)
{
    recv(fd, NULL, 0, MSG_DONTWAIT);
}

/* Close the descriptors of all control messages but the first one, and return that; -1: none. */
static int close_all_but_one(struct msghdr *header, unsigned *count)
{
    int first = -1;
    *count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (const char *)part + at, sizeof(fd));
            if ((*count)++ == 0)
                first = fd;
            else
                close(fd);
        }
    }
    return first;
}

int peer_socket_take_descriptor(int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    /* CMSG_SPACE would leave room for two, because of its alignment. */
    struct msghdr header = {.msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
    if (recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    unsigned count;
    int passed_fd = close_all_but_one(&header, &count);
    bool cut = (header.msg_flags & MSG_CTRUNC) != 0;
    if (count == 1 && !cut)
        return passed_fd;
    if (passed_fd >= 0)
        close(passed_fd);
    if (count == 0)
        return cut ? -EMFILE : -ENOENT;
    return -E2BIG;
}

/* --- ending connections --- */

/* Take all messages that have no descriptors. Return true if none is left. */
static bool is_emptied(int fd)
{
    const int on = 1;
    /* No further message can arrive. */
    shutdown(fd, SHUT_RD);
    /* Credentials distinguish an empty message from the end. There is room only for them. */
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return false;
    for (unsigned i = 0; i < LEFT_MAX; i++) {
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        struct msghdr header = {.msg_control = &control,
                                .msg_controllen = CMSG_LEN(sizeof(struct ucred))};
        ssize_t got = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && errno == ECONNRESET) /* reported once, and the messages are still there */
            continue;
        if (got < 0 || header.msg_controllen == 0)
            return got == 0;
        if ((header.msg_flags & MSG_CTRUNC) != 0)
            return false;
        peer_socket_skip(fd);
    }
    return false;
}

/* Reap children. Return whether one of them is not gone yet. */
static bool reap_children(struct peer_sockets *sockets)
{
    bool has_child = false;
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        if (sockets->children[i] > 0 && waitpid(sockets->children[i], NULL, WNOHANG | __WALL) != 0)
            sockets->children[i] = 0;
        has_child = has_child || sockets->children[i] > 0;
    }
    return has_child;
}

static bool has_any(const struct peer_sockets *sockets)
{
    return sockets->count > 0 || sockets->queue_count > 0;
}

/* Close all connections that end, in a child. Return false if none can be started. */
static bool close_in_child(struct peer_sockets *sockets, pid_t *child)
{
    int fds[PEER_SOCKETS_WAITING_MAX + PEER_SOCKETS_QUEUES_MAX];
    unsigned count = sockets->count;
    memcpy(fds, sockets->ending, count * sizeof(*fds));
    for (unsigned i = 0; i < sockets->queue_count; i++)
        fds[count++] = sockets->queues[i].exit;
    *child = closing_child_start(fds, count);
    if (*child <= 0)
        return false;
    for (unsigned i = 0; i < sockets->queue_count; i++)
        close(sockets->queues[i].entrance);
    sockets->count = sockets->queue_count = 0;
    return true;
}

/* Close all connections that end, if fewer than the maximum of children run. */
static void try_to_close(struct peer_sockets *sockets)
{
    reap_children(sockets);
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        if (sockets->children[i] != 0)
            continue;
        if (!close_in_child(sockets, &sockets->children[i]))
            sockets->children[i] = 0;
        break;
    }
    sockets->due_ms = has_any(sockets) ? clock_read_ms(CLOCK_MONOTONIC) + AGAIN_MS : UINT64_MAX;
}

/* --- parked connections --- */

/* Send connections into a queue. Return false if it is full. */
static bool send_all(int socket, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PEER_SOCKETS_PARKED_AT_ONCE * sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(count * sizeof(int))}};
    struct iovec byte = {.iov_base = "", .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static bool add_queue(struct peer_sockets *sockets)
{
    int ends[2];
    if (sockets->queue_count == PEER_SOCKETS_QUEUES_MAX ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    sockets->queues[sockets->queue_count].entrance = ends[0];
    sockets->queues[sockets->queue_count++].exit = ends[1];
    return true;
}

/* Send newest connections into the last queue. Return false if it is full. */
static bool park_in_last(const struct peer_sockets *sockets)
{
    return sockets->queue_count > 0 &&
           send_all(sockets->queues[sockets->queue_count - 1].entrance,
                    &sockets->ending[sockets->count - PEER_SOCKETS_PARKED_AT_ONCE],
                    PEER_SOCKETS_PARKED_AT_ONCE);
}

/* Park the newest connections that end. They stay open, but are no descriptors of ours any more. */
static void park(struct peer_sockets *sockets)
{
    if (!park_in_last(sockets) && !(add_queue(sockets) && park_in_last(sockets)))
        return;
    for (unsigned i = 0; i < PEER_SOCKETS_PARKED_AT_ONCE; i++)
        close(sockets->ending[--sockets->count]);
}

/* --- interface --- */

void peer_sockets_close(struct peer_sockets *sockets, int fd)
{
    if (is_emptied(fd)) {
        close(fd);
        return;
    }
    if (sockets->count >= PEER_SOCKETS_PARKED_AT_ONCE)
        try_to_close(sockets);
    if (sockets->count >= PEER_SOCKETS_PARKED_AT_ONCE)
        park(sockets);
    if (!has_any(sockets))
        sockets->due_ms = clock_read_ms(CLOCK_MONOTONIC) + ENDING_DELAY_MS;
    if (sockets->count < PEER_SOCKETS_WAITING_MAX)
        sockets->ending[sockets->count++] = fd;
}

void peer_sockets_reap_later(struct peer_sockets *sockets, pid_t killed)
{
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        if (sockets->children[i] == 0) {
            sockets->children[i] = killed;
            return;
        }
    }
    waitpid(killed, NULL, WNOHANG);
}

uint64_t peer_sockets_expire(struct peer_sockets *sockets, uint64_t now_ms)
{
    if (has_any(sockets) && now_ms >= sockets->due_ms)
        try_to_close(sockets);
    uint64_t reap_ms = reap_children(sockets) ? now_ms + REAP_PERIOD_MS : UINT64_MAX;
    return has_any(sockets) && sockets->due_ms < reap_ms ? sockets->due_ms : reap_ms;
}

void peer_sockets_clear(struct peer_sockets *sockets)
{
    pid_t child;
    /* One more child than usual, for our own end must not wait either. Without it they stay open.
     */
    if (has_any(sockets) && close_in_child(sockets, &child))
        waitpid(child, NULL, WNOHANG | __WALL);
    sockets->count = sockets->queue_count = 0;
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        if (sockets->children[i] > 0)
            waitpid(sockets->children[i], NULL, WNOHANG | __WALL);
    }
}
