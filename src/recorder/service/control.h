/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: accepts processes that say hello and clients that send requests
 * (proto/control.proto), and passes both on. Each requested session has a process of its own
 * (supervisor.h). The daemon never waits for a session or a peer.
 *
 * A session ends with the connection of the client that began it, so that a killed client leaves no
 * session. Requests are untrusted; the kernel identifies their senders. A user's requests see and
 * reach only that user's sessions; root's reach all.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_CONTROL_H
#define HEAPPROFD_RECORDER_SERVICE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/processes/access.h"
#include "recorder/service/event_log.h"
#include "recorder/service/hello_routing.h"
#include "recorder/service/supervisor.h"
#include "recorder/sockets/rendezvous.h"
#include "recorder/sockets/run_directory.h"
#include "util/error.h"

/* At most as many as the rendezvous shares out. */
#define CONTROL_CONNECTIONS_MAX RENDEZVOUS_PLACES

struct control_connection {
    int fd;
    struct access_requester requester;
    pid_t pid;
    /* Sessions, by their order, that a snapshot or stop waits for; without any, nothing waits. */
    uint64_t awaited[SUPERVISOR_SESSIONS_MAX];
    size_t awaited_count;
    bool stops;
    uint32_t ticket;
    unsigned reached, failed; /* number of sessions; number of those that failed */
    uint64_t end_ms;          /* CLOCK_MONOTONIC; time of the answer at the latest */
};

struct control {
    struct event_log log;
    /* A descriptor passed to control_watch() is readable. */
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
    struct error no_exec_events; /* why self.has_exec_events is false */
    struct control_status_profiler self;
    uint64_t wake_ms; /* of the owner; UINT64_MAX: never */
    uint32_t last_ticket;
    struct control_connection connections[CONTROL_CONNECTIONS_MAX];
    size_t connection_count;
};

/*
 * Open the daemon. Set the log and the callbacks before. It serves the run directory at `path`;
 * NULL: a socket in a new directory. `listener`: a socket that already listens (-1: none). Return 0
 * or a negative errno with a message; -EBUSY: another daemon serves the directory.
 */
int control_open(struct control *control, const char *path, int listener, struct error *error);

/* End all sessions, with their data written, and answer their clients. */
void control_close(struct control *control);

/* Call `readable` when fd becomes readable. Return 0 or a negative errno. */
int control_watch(const struct control *control, int fd);

/* Do what is due, wait for the next event, and handle it. */
void control_step(struct control *control);

/* Read the policy anew, and apply it to all sessions. Return 0, or a negative errno with a message:
 * the old one stays. */
int control_reload(struct control *control, struct error *error);

/* Make every session take a dump now. */
void control_snapshot_all(struct control *control);

#endif
