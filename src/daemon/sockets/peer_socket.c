/* SPDX-License-Identifier: Apache-2.0 */
/* Peek at messages, and close connections with slow descriptors by killing a child that holds
 * them. */
#include "daemon/sockets/peer_socket.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/priority.h"

/* A flood of such connections costs one fork for each PEER_SOCKETS_ENDING_MAX of them, or for each
 * period of this length. It is also the time that the peer has to read why its connection ends. */
#define ENDING_DELAY_MS 20

/* Time between attempts to start a child. */
#define AGAIN_MS 50

/* Period of checks whether a killed child has ended: a descriptor may delay that for long. */
#define REAP_PERIOD_MS 100

/* Number of messages that fit into a socket's buffer. There is usually one. */
#define LEFT_MAX 1024

ssize_t peer_socket_peek(int fd, struct peer_message *message)
{
    struct iovec vector = {.iov_base = message->bytes, .iov_len = sizeof(message->bytes)};
    /* Without room for control messages the kernel reports only their existence. */
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
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

/* Start a child that holds all our descriptors until it is killed. Return -1 if that fails. Its end
 * sends no SIGCHLD, because programs that embed the profiler wait for that signal. */
static pid_t start_holder(void)
{
    pid_t parent = getpid(), pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
    if (pid != 0)
        return pid;
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (syscall(SYS_getppid) != parent)
        syscall(SYS_exit_group, 0);
    for (;;)
        syscall(SYS_pause);
}

/* Close all connections that end, unless no child can be started. */
static void let_go(struct peer_sockets *sockets)
{
    reap_children(sockets);
    unsigned place = 0;
    while (place < PEER_SOCKETS_CHILDREN_MAX && sockets->children[place] != 0)
        place++;
    pid_t holder = place < PEER_SOCKETS_CHILDREN_MAX ? start_holder() : -1;
    if (holder <= 0) {
        sockets->due_ms = clock_read_ms(CLOCK_MONOTONIC) + AGAIN_MS;
        return;
    }
    priority_give_back(holder);
    /* The child still has them, so that these closes do not wait. */
    while (sockets->count > 0)
        close(sockets->ending[--sockets->count]);
    sockets->due_ms = UINT64_MAX;
    kill(holder, SIGKILL);
    sockets->children[place] = holder;
}

void peer_sockets_close(struct peer_sockets *sockets, int fd)
{
    if (is_emptied(fd)) {
        close(fd);
        return;
    }
    if (peer_sockets_are_full(sockets))
        let_go(sockets);
    if (sockets->count == 0)
        sockets->due_ms = clock_read_ms(CLOCK_MONOTONIC) + ENDING_DELAY_MS;
    if (sockets->count < PEER_SOCKETS_WAITING_MAX)
        sockets->ending[sockets->count++] = fd;
}

void peer_sockets_adopt(struct peer_sockets *sockets, pid_t killed)
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
    if (sockets->count > 0 && now_ms >= sockets->due_ms)
        let_go(sockets);
    uint64_t reap_ms = reap_children(sockets) ? now_ms + REAP_PERIOD_MS : UINT64_MAX;
    return sockets->count > 0 && sockets->due_ms < reap_ms ? sockets->due_ms : reap_ms;
}

void peer_sockets_clear(struct peer_sockets *sockets)
{
    if (sockets->count > 0)
        let_go(sockets);
    /* Without a child they stay open: this process is about to end, which closes them, too. */
    sockets->count = 0;
    for (unsigned i = 0; i < PEER_SOCKETS_CHILDREN_MAX; i++) {
        if (sockets->children[i] > 0)
            waitpid(sockets->children[i], NULL, WNOHANG | __WALL);
    }
}
