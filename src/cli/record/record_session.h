/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of the machine from its configuration to the files and the report: what the verbs
 * have in common that profile what runs already.
 */
#ifndef HEAPPROFD_CLI_RECORD_RECORD_SESSION_H
#define HEAPPROFD_CLI_RECORD_RECORD_SESSION_H

#include <stdbool.h>

#include "trace/config/trace_config.h"

struct record_session {
    const struct heap_config *config;
    const char *output;     /* directory that was asked for; NULL: one of our choice */
    const char *trace_path; /* a trace alone, in place of a directory; NULL */
    bool follow_children, quiet, no_symbols, memory_infra;
};

/* Exit codes of the verbs that profile what runs. */
enum {
    RECORD_SESSION_DONE = 0,
    RECORD_SESSION_FAILED = 1, /* no session came about, or its trace is not whole, or nothing that
                                   was asked for by number can be profiled */
    RECORD_SESSION_USAGE = 2,
    RECORD_SESSION_EMPTY = 3, /* no process was profiled */
};

/* Runs it and prints what is to be said to standard error; an exit code. */
int record_session_run(const struct record_session *session);

#endif
