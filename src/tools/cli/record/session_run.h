/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session on running processes until it ends: in the daemon if one runs, else in this
 * process. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SESSION_RUN_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SESSION_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/config/trace_config.h"
#include "util/error.h"

struct session_progress {
    uint64_t elapsed_ms;
    unsigned processes; /* being profiled */
    double live_bytes;
    uint64_t samples, lost;
};

struct session_run_options {
    const struct heap_config *config;
    bool follow_children;
    int trace_fd;
    /* Called a few times a second. NULL: not wanted. */
    void (*progress)(const struct session_progress *progress);
    /* Called once, when the session is set up; `in_daemon`: in a running daemon. NULL: not
     * wanted. */
    void (*started)(bool in_daemon);
    /* Called once, before the last dumps are written. NULL: not wanted. */
    void (*ending)(void);
    /* Called for each wanted process that gets no profile, as soon as that is known. */
    void (*refused)(int32_t pid, const char *name, const char *reason);
};

struct session_run_result {
    unsigned profiled; /* processes that have a profile */
    unsigned absent;   /* wanted processes without a profile; the trace has the reasons */
    bool hit_guardrail;
    bool daemon_ended;    /* the daemon was asked to end */
    bool processes_ended; /* only running processes were wanted, and all of them have ended */
};

/* Run until the duration has passed; until SIGINT, SIGTERM or SIGHUP; until somebody stops the
 * session; or, if only running processes were wanted, until all of them have ended. Return 0, or a
 * negative errno with a message. */
int session_run(const struct session_run_options *options, struct session_run_result *result,
                struct error *error);

#endif
