/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a session of the machine until it is over: in the daemon where one runs, else in this
 * process.
 */
#ifndef HEAPPROFD_CLI_RECORD_SESSION_RUN_H
#define HEAPPROFD_CLI_RECORD_SESSION_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/config/trace_config.h"
#include "util/error.h"

struct session_progress {
    uint64_t elapsed_ms;
    unsigned processes; /* profiled now */
    double live_bytes;
    uint64_t samples, lost;
};

struct session_run_options {
    const struct heap_config *config;
    bool follow_children;
    int trace_fd;
    /* Some times a second; NULL: not wanted. */
    void (*progress)(const struct session_progress *progress);
    /* Once, when all is set up; `in_daemon`: a running daemon does it. NULL: not wanted. */
    void (*started)(bool in_daemon);
    /* Once, before the last dumps are written. NULL: not wanted. */
    void (*ending)(void);
    /* Called for each wanted process that gets no profile, as soon as that is known. */
    void (*refused)(int32_t pid, const char *name, const char *reason);
};

struct session_run_result {
    unsigned profiled; /* processes that have a profile */
    unsigned absent;   /* that were wanted and have none; the trace says why */
    bool hit_guardrail;
    bool daemon_ended;    /* the daemon was told to end */
    bool processes_ended; /* only running processes were wanted, and all of them have ended */
};

/* Run until the duration has passed; until SIGINT, SIGTERM or SIGHUP; until somebody stops the
 * session; or, if only running processes were wanted, until all of them have ended. Return 0, or a
 * negative errno with a message. */
int session_run(const struct session_run_options *options, struct session_run_result *result,
                struct error *error);

#endif
