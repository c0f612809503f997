/*
 * The place where clients meet the daemon: a listening socket, and the handshake
 * (wire/handshake.h) with whoever connects. Never waits for a peer: one that is
 * silent for a second is dropped. Whoever says something else than hello, and says it in
 * the form of a request (wire/request.h), is handed on.
 */
#ifndef HEAPPROFD_DAEMON_RENDEZVOUS_H
#define HEAPPROFD_DAEMON_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/peer_socket.h"
#include "util/error.h"
#include "wire/handshake.h"

/* Peers that have connected and not yet said hello. More wait in the backlog. */
#define RENDEZVOUS_PEERS_MAX 128

#define RENDEZVOUS_PATIENCE_MS 1000

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
        uint64_t deadline_ms; /* CLOCK_MONOTONIC */
    } peers[RENDEZVOUS_PEERS_MAX];
    unsigned peer_count;
    struct peer_sockets ending;
};

/* Answers a hello. 1: with a ring in *memfd; 0: without; negative errno: not at all. */
typedef int rendezvous_answer(void *context, pid_t pid, uid_t uid,
                              const struct handshake_hello *hello, struct handshake_reply *reply,
                              int *memfd);

/* Take over the connection of a peer whose request is still in it (peer_socket_skip,
 * peer_socket_take_descriptor). */
typedef void rendezvous_request(void *context, int fd, const struct peer_message *message);

/* Listens at directory/socket, or, where directory is NULL, in a new directory; or takes over
 * a listener that is there already (-1: none). Has the epoll tell of both the listener and the
 * peers, with their descriptor as data. 0 or a negative errno with a message. */
int rendezvous_open(struct rendezvous *rendezvous, int epoll, const char *directory, int listener,
                    struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/* Close a connection that came from here, whatever its peer has left in it. */
void rendezvous_end_connection(struct rendezvous *rendezvous, int fd);

/* Serves the listener or a peer, whichever fd is; false: it is neither. `request` may be
 * NULL: then only hellos are served. */
bool rendezvous_serve(struct rendezvous *rendezvous, int fd, rendezvous_answer *answer,
                      void *context, rendezvous_request *request, void *request_context);

/* Drops peers whose time is over; the time of the next one, UINT64_MAX: none. */
uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms);

#endif
