/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the session servers that this user may reach: the running heapprofd, and each heap_profile
 * with its own session (recorder/sockets/session_directory.h).
 *
 * Root also reaches those of other users, who may have put anything there. So all servers are asked
 * at once, with one deadline; each user has room for a few; and user and pid of a server are what
 * the kernel says, whatever it answers.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SESSION_LIST_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SESSION_LIST_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/error.h"

struct session_list {
    struct session_server {
        char path[160];                 /* of its socket */
        bool is_daemon;                 /* false: a heap_profile with one session */
        pid_t pid;                      /* 0: unknown */
        uid_t uid;                      /* who listens there */
        uid_t owner;                    /* the user who must listen there; -1: any */
        struct error error;             /* why it gave no status */
        Heapprofd__ControlReply *reply; /* contains its status; NULL: it does not answer */
    } * servers;
    size_t count, capacity;
};

/* Find all servers and ask them for their status, for two seconds at most. Print a warning if
 * sessions of this user cannot be found, or some were left out. */
void session_list_read(struct session_list *list);
void session_list_clear(struct session_list *list);

/* Return the status of a server, or NULL if it gave none. */
const Heapprofd__ControlStatus *session_server_status(const struct session_server *server);

/* Return the daemon, or NULL if none runs. */
const struct session_server *session_list_daemon(const struct session_list *list);

/* Return whether the server is another user's, so that all that it says is that user's claim. */
bool session_server_is_strangers(const struct session_server *server);

struct session_question {
    const struct session_server *server;
    const Heapprofd__ControlRequest *request;
    unsigned patience_ms;
    /* The answer, which the caller frees with heapprofd__control_reply__free_unpacked. NULL: the
     * server gave none, and `error` says why. */
    Heapprofd__ControlReply *reply;
    struct error error;
};

/* Ask all at once, and wait until each has answered or its patience is over. */
void session_servers_ask(struct session_question *questions, size_t count);

/* Print a warning if sessions of this user that have no daemon cannot be found. */
void session_list_warn(void);

#endif
