/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the session servers that this user may reach: the running heapprofd, and each heap_profile
 * with its own session (daemon/sockets/session_directory.h). */
#ifndef HEAPPROFD_CLI_RECORD_SESSION_LIST_H
#define HEAPPROFD_CLI_RECORD_SESSION_LIST_H

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
        uid_t owner;                    /* the user who must listen there; -1: any */
        struct error error;             /* why it gave no status */
        Heapprofd__ControlReply *reply; /* contains its status; NULL: it does not answer */
    } * servers;
    size_t count, capacity;
};

/* Find all servers and ask each for its status, for two seconds at most. */
void session_list_read(struct session_list *list);
void session_list_clear(struct session_list *list);

/* Return the status of a server, or NULL if it gave none. */
const Heapprofd__ControlStatus *session_server_status(const struct session_server *server);

/* Return the daemon, or NULL if none runs. */
const struct session_server *session_list_daemon(const struct session_list *list);

/* Send a request to a server and wait for the reply without a limit. The caller frees it with
 * heapprofd__control_reply__free_unpacked. Return NULL with a message on failure. */
Heapprofd__ControlReply *session_server_ask(const struct session_server *server,
                                            const Heapprofd__ControlRequest *request,
                                            struct error *error);

#endif
