/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of one session of the daemon. It runs with the rights of whoever asked for the
 * session (session_rights.h), so that nothing in it can do more than that user could: it finds and
 * attaches to processes, reads their rings, opens their files and writes the trace. Whatever
 * blocks, crashes or uses up memory there ends or delays that session alone.
 *
 * It speaks with its client over the client's own connection, and with the supervisor over
 * session_wire.h. It ends when the client's connection ends, when the supervisor says so or is
 * gone, and when the session is over; the trace is whole then.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_SESSION_PROCESS_H
#define HEAPPROFD_DAEMON_SERVICE_SESSION_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/processes/access.h"
#include "daemon/service/session_rights.h"

/* Descriptors are the session process's from then on. */
struct session_process_start {
    uint64_t id;
    int supervisor; /* socket, session_wire.h */
    int client;     /* the connection, with the request and the trace's descriptor in it */
    const struct session_rights *rights;
    struct access_requester requester;
    struct access_policy *policy;
    const char *socket_path; /* where processes find the daemon */
    const void *config;      /* a serialized TraceConfig, as it came */
    size_t config_bytes;
    bool follow_children, wants_progress;
};

/* Run the session and exit. Call it in a forked child. */
_Noreturn void session_process_run(const struct session_process_start *start);

#endif
