/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of one of the daemon's sessions. It runs with the rights of the requester
 * (session_rights.h), so that it can do no more than that user could. It finds and attaches to
 * processes, reads their rings, opens their files and writes the trace. If it blocks, crashes or
 * runs out of memory, that affects only its own session.
 *
 * It talks to its client over the client's own connection, and to the supervisor over
 * session_wire.h. It ends when the client's connection ends, when the supervisor ends it or is
 * gone, and when the session is over. The trace is complete then.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_SESSION_PROCESS_H
#define HEAPPROFD_RECORDER_SERVICE_SESSION_PROCESS_H

#include <control.pb-c.h>
#include <stdint.h>

#include "recorder/processes/access.h"
#include "recorder/service/session_rights.h"

/* The session process takes ownership of the descriptors. */
struct session_process_start {
    uint64_t id;
    int supervisor; /* a socket, session_wire.h */
    int client;     /* the connection, which still holds the request and the trace's descriptor */
    const struct session_rights *rights;
    struct access_requester requester;
    struct access_policy *policy;
    const char *socket_path; /* where processes find the daemon */
    const Heapprofd__ControlRequest__Start *request;
    uint32_t share_ppm; /* attach_budget.h */
    bool may_claim;     /* continuous mode runs, and may have a process that the session wants */
};

/* Run the session, then exit. Call it in a forked child. */
_Noreturn void session_process_run(const struct session_process_start *start);

#endif
