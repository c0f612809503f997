/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop that serves a session: it answers hellos, drains rings, keeps the session's clock
 * (timeline, dumps, duration), and notices the ends of processes. It never waits for a peer. Its
 * user makes the session and closes it when it is over.
 */
#ifndef HEAPPROFD_RECORDER_SERVER_SERVER_H
#define HEAPPROFD_RECORDER_SERVER_SERVER_H

#include <stdint.h>

#include "recorder/server/attach_budget.h"
#include "recorder/session/session.h"
#include "recorder/sockets/rendezvous.h"
#include "util/error.h"

/* Callbacks of a server's user. Each may be NULL, except `request` if the server listens. */
struct server_user {
    /* A descriptor passed to server_watch() is readable. */
    void (*readable)(void *context, int fd);
    /* The session's duration has passed, or a guardrail ended it; session->over is the reason. */
    void (*session_over)(void *context, struct session *session);
    /* About ten times a second. */
    void (*progress)(void *context, struct session *session, uint64_t now_ms);
    /* A peer sent a message that is no hello: see struct rendezvous_user. */
    void (*request)(void *context, int fd, const struct peer_message *message);
    /* Another session profiles the process. Ask continuous mode to hand it over, and call
     * discovery_claim_answered() later; or return false. */
    bool (*claim)(void *context, pid_t pid);
    /* Take in what the kernel has reported about the session's processes. */
    void (*read_events)(void *context);
    struct session_user session; /* callbacks of the session itself */
    void *context;
};

struct server {
    const struct server_user *user;
    int epoll;
    struct rendezvous rendezvous; /* in a session process of the daemon: closed */
    const char *socket_path;      /* where processes find the daemon, or this server */
    pid_t supervisor; /* pid of the daemon's supervisor if this is one of its session processes; 0:
                         it is not */
    int exec_events;  /* descriptor of exec_events.h; -1: none */
    struct attach_budget attach_budget;
    struct session *session;           /* NULL: not begun yet, or removed; not owned */
    pid_t entering;                    /* a process that we trace through its exec; 0: none */
    uint64_t drain_ms, drain_delay_ms; /* CLOCK_MONOTONIC */
    uint64_t longest_drain_delay_ms;
    uint64_t wake_ms; /* of the user; UINT64_MAX: none */
};

/* Open a server, which is all 0 (it is large, and pages of 0 need not be written). `directory`:
 * where its socket goes, NULL: in a new directory. `listener`: a socket that already listens (from
 * systemd), -1: none. Return 0 or a negative errno with a message. */
int server_open(struct server *server, const struct server_user *user, const char *directory,
                int listener, struct error *error);
void server_close(struct server *server);

/* The same, but listen nowhere. Another process receives hellos at socket_path (not copied),
 * and passes them on. */
int server_open_without_socket(struct server *server, const struct server_user *user,
                               const char *socket_path, struct error *error);
/* Answer a process that said hello to another process, on its connection. Return 1 if it is
 * profiled, 0 if it is not wanted, a negative errno if it is refused. Only in the first case the
 * process has its answer. */
int server_take_hello(struct server *server, int fd, pid_t pid, uid_t uid,
                      const struct handshake_hello *hello);

/* Call the user when fd becomes readable. Return 0 or a negative errno. */
int server_watch(const struct server *server, int fd);
void server_unwatch(const struct server *server, int fd);

/* Start the session's clock, and ask it about processes that say hello. */
void server_begin_session(struct server *server, struct session *session);
/* Let no more processes join the session. */
void server_remove_session(struct server *server);

/* Drain the rings soon: a new program allocates most at its start. */
void server_drain_soon(struct server *server);

/* Do what is due, wait for the next event, and handle it. */
void server_step(struct server *server);

#endif
