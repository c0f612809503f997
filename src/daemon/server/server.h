/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop that serves sessions: takes hellos, drains rings, keeps the
 * sessions' clocks (timeline, dumps, duration) and learns of processes' ends.
 * Never waits for anybody. Who makes the sessions and what becomes of them when
 * they are over is its user's business: `host` has one, the daemon any number.
 */
#ifndef HEAPPROFD_DAEMON_SERVER_SERVER_H
#define HEAPPROFD_DAEMON_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/session/session.h"
#include "daemon/sockets/rendezvous.h"
#include "util/error.h"

#define SERVER_SESSIONS_MAX 64

struct server;

/* What the user of a server is told; each may be NULL. */
struct server_user {
    /* A descriptor is readable that server_watch was given. */
    void (*readable)(void *context, int fd);
    /* A session's duration has passed, or a guardrail ended it (session->over says which). */
    void (*session_over)(void *context, struct session *session);
    /* About ten times a second, for each session. */
    void (*progress)(void *context, struct session *session, uint64_t now_ms);
    /* Called for a process that a session wants and that gets no profile; the remark says why. */
    void (*refused)(void *context, struct session *session, const struct process_info *info,
                    const char *remark);
    /* Called every now and then during work that may take seconds: dumps, attaching, the end. */
    void (*busy)(void *context);
    /* Somebody has sent what is no hello; as rendezvous_request. */
    rendezvous_request *request;
    void *context;
};

struct server {
    const struct server_user *user;
    int epoll;
    struct rendezvous rendezvous; /* in a session process of the daemon: closed */
    const char *socket_path;      /* where processes find the daemon, or this server */
    pid_t supervisor;             /* the daemon's, of which this is a session process; 0: none */
    int exec_events;              /* daemon/processes/exec_events.h; -1: none */
    struct session *sessions[SERVER_SESSIONS_MAX]; /* in the order of their start; not owned */
    size_t session_count;
    uint64_t look_ms, look_delay_ms; /* CLOCK_MONOTONIC */
    uint64_t wake_ms;                /* of the user's; UINT64_MAX: none */
};

/* `directory`: where the socket is to be, NULL: in a new one of its own; `listener`: one
 * that is there already (of systemd), -1: none. 0 or a negative errno with a message. */
int server_open(struct server *server, const struct server_user *user, const char *directory,
                int listener, struct error *error);
void server_close(struct server *server);

/* The same for a process to which somebody else passes hellos, from those who come to socket_path
 * (not copied). */
int server_open_without_socket(struct server *server, const struct server_user *user,
                               const char *socket_path, struct error *error);
/* Answer a process that has said hello to somebody else, on its connection. Return 1: it is
 * profiled; 0: it is not wanted; a negative errno: it is refused. Only in the first case it has its
 * answer then. */
int server_take_hello(struct server *server, int fd, pid_t pid, uid_t uid,
                      const struct handshake_hello *hello);

/* Has the user told when fd is readable. 0 or a negative errno. */
int server_watch(const struct server *server, int fd);

/* From here on the session's clock runs and processes are told of it. -EMFILE: too many. */
int server_add_session(struct server *server, struct session *session);
void server_remove_session(struct server *server, struct session *session);

/* A new program is there: it allocates most at its start. */
void server_look_soon(struct server *server);

/* Does what is due, waits for what comes next, and deals with it. */
void server_step(struct server *server);

#endif
