/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place where clients meet the daemon: a listening socket, and the handshake
 * (wire/handshake.h) with each that connects. It never waits for a peer, and drops one that is
 * silent for a second. A connection whose first message is a request (wire/request.h) instead of a
 * hello is handed on.
 *
 * Connections are shared out among users (connection_shares.h), also those that were handed on. A
 * connection that asks nothing and waits for nothing is ended after RENDEZVOUS_REST_MS. Accepting
 * one costs little, so that nobody waits long in the backlog behind a flood. Then each user is
 * served a few messages in each turn.
 */
#ifndef HEAPPROFD_DAEMON_SOCKETS_RENDEZVOUS_H
#define HEAPPROFD_DAEMON_SOCKETS_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/sockets/connection_shares.h"
#include "daemon/sockets/peer_socket.h"
#include "util/error.h"
#include "wire/handshake.h"

/* One user may hold a quarter of them, and all may hold half of the descriptors that there can be.
 */
#define RENDEZVOUS_CONNECTIONS_MAX CONNECTION_SHARES_MAX
/* A connection that was handed on and shut down keeps its place, but counts as nobody's. */
#define RENDEZVOUS_PLACES (RENDEZVOUS_CONNECTIONS_MAX + RENDEZVOUS_CONNECTIONS_MAX / 4)

#define RENDEZVOUS_PATIENCE_MS 1000
#define RENDEZVOUS_REST_MS 10000

enum rendezvous_state {
    RENDEZVOUS_NEW,    /* accepted, and not looked at yet */
    RENDEZVOUS_SILENT, /* has sent nothing yet */
    RENDEZVOUS_RESTS,  /* handed on, and waits for nothing */
    RENDEZVOUS_HELD,   /* handed on, and has a session or waits for an answer */
    RENDEZVOUS_ENDS    /* handed on, and shut down here: reading it says so */
};

struct rendezvous {
    char directory[96]; /* "": not ours to remove */
    char path[108];     /* as long as a unix socket's may be; "": the listener came from outside */
    int listener;
    int spare; /* given up when no other descriptor is left */
    int epoll; /* not owned: where peers' descriptors are to be waited for */
    struct rendezvous_peer {
        int fd;
        pid_t pid;
        uid_t uid;
        enum rendezvous_state state;
        uint64_t deadline_ms; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    } peers[RENDEZVOUS_PLACES];
    unsigned peer_count;
    unsigned next_peer; /* to be looked at first in the next turn */
    struct connection_shares shares;
    struct peer_sockets ending;
    bool takes_nobody; /* until `ending` has room */
};

/* The callee serves the connection from now on, and answers later. */
#define RENDEZVOUS_TAKEN_OVER 2

/* Answers a hello. 1: with a ring in *memfd; 0: without; RENDEZVOUS_TAKEN_OVER; negative errno: not
 * at all. */
typedef int rendezvous_answer(void *context, int fd, pid_t pid, uid_t uid,
                              const struct handshake_hello *hello, struct handshake_reply *reply,
                              int *memfd);

/* Serve the connection of a peer whose request is still in it (peer_socket_skip,
 * peer_socket_take_descriptor), from now on until rendezvous_end_connection. It rests. */
typedef void rendezvous_request(void *context, int fd, const struct peer_message *message);

/* Send an answer to a hello, with a ring (-1: none). */
void rendezvous_reply(int fd, const struct handshake_reply *reply, int memfd);

/* Listens at directory/socket, or, where directory is NULL, in a new directory; or takes over
 * a listener that is there already (-1: none). Has the epoll tell of both the listener and the
 * peers, with their descriptor as data. 0 or a negative errno with a message. */
int rendezvous_open(struct rendezvous *rendezvous, int epoll, const char *directory, int listener,
                    struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/* Return whether a message of a connection that was handed on may be served in this turn. */
bool rendezvous_is_in_turn(struct rendezvous *rendezvous, int fd);

/* Keep a connection that was handed on for as long as it takes. */
void rendezvous_hold(struct rendezvous *rendezvous, int fd);

/* Let a connection end that asks nothing for RENDEZVOUS_REST_MS from now on. */
void rendezvous_rest(struct rendezvous *rendezvous, int fd);

/* Close a connection that came from here, whatever its peer has left in it. */
void rendezvous_end_connection(struct rendezvous *rendezvous, int fd);

/* Serves the listener or a peer, whichever fd is; false: it is neither. `request` may be
 * NULL: then only hellos are served. */
bool rendezvous_serve(struct rendezvous *rendezvous, int fd, rendezvous_answer *answer,
                      void *context, rendezvous_request *request, void *request_context);

/* Begin a turn: serve peers that have connected, each user a few. */
void rendezvous_begin_turn(struct rendezvous *rendezvous, rendezvous_answer *answer, void *context,
                           rendezvous_request *request, void *request_context);

/* Drop connections whose time is over. Return when something will be due, UINT64_MAX: nothing. */
uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms);

#endif
