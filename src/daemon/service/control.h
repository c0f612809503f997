/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: listens for processes that say hello and for those who ask something of it
 * (proto/control.proto), and passes both on. Each session that is asked for has a process of its
 * own (supervisor.h); nothing here waits for one, nor for a peer.
 *
 * A session ends with the connection of the client that began it, so that a client that is killed
 * leaves no session behind. Requests are untrusted; the kernel says who sends them. A user's
 * requests see and reach that user's sessions, root's all.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_CONTROL_H
#define HEAPPROFD_DAEMON_SERVICE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/processes/access.h"
#include "daemon/service/hello_routing.h"
#include "daemon/service/supervisor.h"
#include "daemon/sockets/log_shares.h"
#include "daemon/sockets/rendezvous.h"
#include "daemon/sockets/run_directory.h"
#include "util/error.h"

/* Never more than there are: the rendezvous shares them out. */
#define CONTROL_CONNECTIONS_MAX RENDEZVOUS_PLACES

struct control_connection {
    int fd;
    struct access_requester requester;
    pid_t pid;
    /* A snapshot or stop that waits for sessions, by their order; 0 of them: none does. */
    uint64_t awaited[SUPERVISOR_SESSIONS_MAX];
    size_t awaited_count;
    bool stops;
    uint32_t ticket;
    unsigned reached, failed; /* sessions; those that did not do it */
    uint64_t end_ms;          /* it is answered by then; CLOCK_MONOTONIC */
};

struct control {
    /* Called for each event, with a line without its end; may be NULL. */
    void (*log)(const char *line);
    struct log_shares log_shares;
    /* A descriptor of the owner's own is readable. */
    void (*readable)(void *context, int fd);
    void *context;

    int epoll;
    struct rendezvous rendezvous;
    struct run_directory directory;
    struct access_policy policy;
    struct supervisor supervisor;
    struct supervisor_user supervisor_user;
    struct hello_routing hellos;
    char socket_path[RUN_DIRECTORY_PATH_MAX + 16];
    struct error not_told; /* why the kernel reports no programs that begin; 0: it does */
    uint64_t start_ms;
    uint64_t wake_ms; /* the owner's; UINT64_MAX: never */
    uint32_t last_ticket;
    struct control_connection connections[CONTROL_CONNECTIONS_MAX];
    size_t connection_count;
};

/*
 * Take the run directory at `path` (NULL: none, a socket in a new directory). `listener`: a socket
 * that listens already (-1: none). Set the callbacks before. 0 or a negative errno with a
 * message; -EBUSY: another daemon is there.
 */
int control_open(struct control *control, const char *path, int listener, struct error *error);

/* End all sessions with their data written, and answer their clients. */
void control_close(struct control *control);

/* Call `readable` when fd is readable. 0 or a negative errno. */
int control_watch(const struct control *control, int fd);

/* Do what is due and wait for what comes next. */
void control_step(struct control *control);

/* Have every session take a dump now. */
void control_snapshot_all(struct control *control);

#endif
