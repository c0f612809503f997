/*
 * The place where clients meet the daemon: a listening socket in a private
 * directory, and the handshake (wire/handshake.h) with whoever connects. Never
 * waits for a peer: one that is silent for a second is dropped.
 */
#ifndef HEAPPROFD_DAEMON_RENDEZVOUS_H
#define HEAPPROFD_DAEMON_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"
#include "wire/handshake.h"

/* Peers that have connected and not yet said hello. More wait in the backlog. */
#define RENDEZVOUS_PEERS_MAX 128

#define RENDEZVOUS_PATIENCE_MS 1000

struct rendezvous {
    char directory[96];
    char path[108]; /* as long as a unix socket's may be */
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
};

/* Answers a hello as session_hello() does. */
typedef int rendezvous_answer(void *context, pid_t pid, uid_t uid,
                              const struct handshake_hello *hello, struct handshake_reply *reply,
                              int *memfd);

/* Makes directory and socket, and has the epoll tell of both the listener and the
 * peers, with their descriptor as data. 0 or a negative errno with a message. */
int rendezvous_open(struct rendezvous *rendezvous, int epoll, struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/* Serves the listener or a peer, whichever fd is; false: it is neither. */
bool rendezvous_serve(struct rendezvous *rendezvous, int fd, rendezvous_answer *answer,
                      void *context);

/* Drops peers whose time is over; the time of the next one, UINT64_MAX: none. */
uint64_t rendezvous_expire(struct rendezvous *rendezvous, uint64_t now_ms);

#endif
