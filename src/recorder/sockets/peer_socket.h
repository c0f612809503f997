/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from untrusted peers, who may pass descriptors with them (SCM_RIGHTS).
 *
 * An unwanted descriptor must not stay open, and closing it may take as long as its sender likes:
 * the last close of a TCP socket with SO_LINGER waits for its peer, and each close of a file on
 * FUSE waits for the process that serves it. So a message is first peeked at, and stays in the
 * socket with its descriptors. They are received only for a request that takes one. Any other
 * message with descriptors is never received: its connection ends, and peer_sockets closes it.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_PEER_SOCKET_H
#define HEAPPROFD_RECORDER_SOCKETS_PEER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/sockets/request.h"

struct peer_message {
    char bytes[REQUEST_BYTES_MAX];
    size_t length; /* 0: empty, or longer than any message of ours */
    bool has_descriptors;
};

/* Copy the next message without receiving it or its descriptors, and without waiting. Return as
 * recv(). */
ssize_t peer_socket_peek(int fd, struct peer_message *message);

/* Receive and drop the message that was peeked at. It has no descriptors. */
void peer_socket_skip(int fd);

/* Receive the message that was peeked at, and return the descriptor that came with it. -ENOENT:
 * none came; -E2BIG: more than one came, and all are closed again; -EMFILE: this process cannot
 * have another one. */
int peer_socket_take_descriptor(int fd);

/* Connections that end with descriptors in them. A child closes them. Descriptors
 * of a stranger may keep all children in the kernel for as long as the stranger likes. Then further
 * connections are parked: sent into queues (SCM_RIGHTS) that this process keeps open until a child
 * can take them. The kernel limits how many descriptors a user may have in unread messages
 * (RLIMIT_NOFILE, usually at most 524,288). The queues have room for more connections than that. */
#define PEER_SOCKETS_CHILDREN_MAX 8
#define PEER_SOCKETS_PARKED_AT_ONCE 128
#define PEER_SOCKETS_QUEUES_MAX 32
/* If parking fails, too, connections wait here. From this number on no new ones are accepted
 * (peer_sockets_are_full). There is room for all that are open then. */
#define PEER_SOCKETS_ENDING_MAX 256
#define PEER_SOCKETS_WAITING_MAX 4096

struct peer_sockets {
    int ending[PEER_SOCKETS_WAITING_MAX];
    unsigned count;
    struct {
        int entrance, exit;
    } queues[PEER_SOCKETS_QUEUES_MAX]; /* full, except for the last one */
    unsigned queue_count;
    pid_t children[PEER_SOCKETS_CHILDREN_MAX]; /* ending; 0: none */
    uint64_t due_ms; /* time to close those in `ending` and the queues; CLOCK_MONOTONIC */
};

/* Close a connection without waiting for what is left in it. */
void peer_sockets_close(struct peer_sockets *sockets, int fd);

/* Return whether so many connections wait that no more should be accepted. */
static inline bool peer_sockets_are_full(const struct peer_sockets *sockets)
{
    return sockets->count >= PEER_SOCKETS_ENDING_MAX;
}

/* Reap a killed child when it is gone. */
void peer_sockets_reap_later(struct peer_sockets *sockets, pid_t killed);

/* Close connections whose time has come, and reap children that are gone. Return when to call
 * again; UINT64_MAX: nothing is left to do. */
uint64_t peer_sockets_expire(struct peer_sockets *sockets, uint64_t now_ms);

/* Close all connections at once. */
void peer_sockets_clear(struct peer_sockets *sockets);

#endif
