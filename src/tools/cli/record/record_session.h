/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session on running processes, from its configuration to the files and the report: the
 * common part of the verbs that profile running processes. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_RECORD_SESSION_H
#define HEAPPROFD_TOOLS_CLI_RECORD_RECORD_SESSION_H

#include "tools/cli/record/finish_profile.h"
#include "tools/cli/record/service/tracing_beside.h"
#include "trace/config/trace_config.h"

struct record_session {
    const struct heap_config *config;
    const char *output;     /* the directory that the user named; NULL: one of our choice */
    const char *trace_path; /* write only a trace, to this path; NULL: write a directory */
    bool follow_children;
    bool view;                     /* show a page meanwhile; only of a directory */
    struct tracing_beside *beside; /* a session of the tracing service meanwhile; NULL: none */
    struct finish_profile_options finish;
};

/* Exit codes of the verbs that profile running processes. */
enum {
    RECORD_SESSION_DONE = 0,
    RECORD_SESSION_FAILED = 1, /* no session started, its trace is incomplete, or no process named
                                  by pid can be profiled */
    RECORD_SESSION_USAGE = 2,
    RECORD_SESSION_EMPTY = 3, /* no process was profiled */
};

/* Run the session, with its messages on standard error. Return the exit code. */
int record_session_run(const struct record_session *session);

#endif
