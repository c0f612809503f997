/*
 * All that serve sessions which this user may reach: the running heapprofd, and each heap_profile
 * that has a session of its own (daemon/session_directory.h).
 */
#ifndef HEAPPROFD_CLI_SESSION_LIST_H
#define HEAPPROFD_CLI_SESSION_LIST_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/error.h"

struct session_list {
    struct session_server {
        char path[160];                 /* of its socket */
        bool is_daemon;                 /* else it has one session of its own */
        pid_t pid;                      /* 0: unknown */
        uid_t owner;                    /* who must be at the other end; -1: anybody */
        struct error error;             /* why there is no status */
        Heapprofd__ControlReply *reply; /* with its status; NULL: it does not answer */
    } * servers;
    size_t count, capacity;
};

/* Find all, and ask each for its status, for two seconds at most. */
void session_list_read(struct session_list *list);
void session_list_clear(struct session_list *list);

/* The status of a server; NULL: it gives none. */
const Heapprofd__ControlStatus *session_server_status(const struct session_server *server);

/* The daemon; NULL: none runs. */
const struct session_server *session_list_daemon(const struct session_list *list);

/* Ask one of them, however long it takes. To be freed with
 * heapprofd__control_reply__free_unpacked; NULL with a message. */
Heapprofd__ControlReply *session_server_ask(const struct session_server *server,
                                            const Heapprofd__ControlRequest *request,
                                            struct error *error);

#endif
