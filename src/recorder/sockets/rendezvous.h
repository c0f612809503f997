/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where clients meet the daemon: a listening socket, and the handshake (wire/handshake.h) with each
 * that connects. It never waits for a peer, and drops one that is silent for a second. A connection
 * whose first message is a request (recorder/sockets/request.h) instead of a hello is handed on.
 *
 * Connections are shared out among users (connection_shares.h), including those that were handed
 * on. An idle connection ends after RENDEZVOUS_IDLE_MS. Accepting one costs little, so that nobody
 * waits long in the backlog after a flood. Then each user is served a few messages in each turn.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_RENDEZVOUS_H
#define HEAPPROFD_RECORDER_SOCKETS_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/sockets/connection_shares.h"
#include "recorder/sockets/peer_socket.h"
#include "util/error.h"
#include "wire/handshake.h"

/* A user may hold a quarter of them, and all users together half of the possible descriptors. */
#define RENDEZVOUS_CONNECTIONS_MAX CONNECTION_SHARES_MAX
/* A connection that was handed on and shut down keeps its place, but counts for no user. */
#define RENDEZVOUS_PLACES (RENDEZVOUS_CONNECTIONS_MAX + RENDEZVOUS_CONNECTIONS_MAX / 4)

#define RENDEZVOUS_PATIENCE_MS 1000
#define RENDEZVOUS_IDLE_MS 10000

enum rendezvous_state {
    RENDEZVOUS_NEW,    /* accepted, not read yet */
    RENDEZVOUS_SILENT, /* has sent nothing yet */
    RENDEZVOUS_IDLE,   /* handed on, and idle */
    RENDEZVOUS_HELD,   /* handed on, and has a session or awaits an answer */
    RENDEZVOUS_ENDS    /* handed on, and shut down here: reading it returns its end */
};

/* The callee now serves the connection, and answers later. */
#define RENDEZVOUS_TAKEN_OVER 2

/* Callbacks of the rendezvous's user. */
struct rendezvous_user {
    /* Answer a hello. Return 1 with a ring in *memfd, 0 without one, RENDEZVOUS_TAKEN_OVER, or a
     * negative errno for no answer. */
    int (*answer)(void *context, int fd, pid_t pid, uid_t uid, const struct handshake_hello *hello,
                  struct handshake_reply *reply, int *memfd);
    /* Serve the connection of a peer whose request is still in it (peer_socket_skip,
     * peer_socket_take_descriptor), until rendezvous_end_connection(). It begins as idle. */
    void (*request)(void *context, int fd, const struct peer_message *message);
    void *context;
};

struct rendezvous {
    struct rendezvous_user user;
    char directory[96]; /* to be removed by us; "": none */
    char path[108]; /* as long as a unix socket's path may be; "": the listener came from outside */
    int listener;
    int spare; /* closed when no other descriptor is left */
    int epoll; /* watches the peers' descriptors; not owned */
    struct rendezvous_peer {
        int fd;
        pid_t pid;
        uid_t uid;
        enum rendezvous_state state;
        uint64_t deadline_ms; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    } peers[RENDEZVOUS_PLACES];
    unsigned peer_count;
    unsigned next_peer; /* the first one of the next turn */
    struct connection_shares shares;
    struct peer_sockets ending;
    bool is_paused; /* while `ending` is full */
};

/* Send an answer to a hello, with a ring (-1: none). */
void rendezvous_reply(int fd, const struct handshake_reply *reply, int memfd);

/* Set the user before. Listen at directory/socket, or in a new directory if it is NULL, or take
 * over a listener (-1: none). The epoll instance reports the listener and the peers, with their
 * descriptor as data. Return 0 or a negative errno with a message. */
int rendezvous_open(struct rendezvous *rendezvous, int epoll, const char *directory, int listener,
                    struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/* Return whether a message of a connection that was handed on may be served in this turn. */
bool rendezvous_is_in_turn(struct rendezvous *rendezvous, int fd);

/* Keep a connection that was handed on, without a deadline. */
void rendezvous_hold(struct rendezvous *rendezvous, int fd);

/* End a connection that was handed on if it is idle for RENDEZVOUS_IDLE_MS from now on. */
void rendezvous_set_idle(struct rendezvous *rendezvous, int fd);

/* Close a connection that was accepted here, whatever its peer has left in it. */
void rendezvous_end_connection(struct rendezvous *rendezvous, int fd);

/* Serve the listener or a peer. Return false if fd is neither. */
bool rendezvous_serve(struct rendezvous *rendezvous, int fd);

/* Begin a turn: serve connected peers, a few messages of each user. */
void rendezvous_begin_turn(struct rendezvous *rendezvous);

/* Drop connections whose deadline has passed. Return when the next thing is due; UINT64_MAX:
 * never. */
uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms);

#endif
