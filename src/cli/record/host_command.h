/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is run under the profiler, from the output directory that is made for it to the
 * names and pprof files beside the trace: what `heap_profile host` and `check -- COMMAND` share.
 */
#ifndef HEAPPROFD_CLI_RECORD_HOST_COMMAND_H
#define HEAPPROFD_CLI_RECORD_HOST_COMMAND_H

#include "cli/files/output.h"
#include "daemon/host/host.h"

/* As shells and env(1) have them. */
#define HOST_PROFILER_FAILED 125
#define HOST_NOT_EXECUTABLE 126
#define HOST_NOT_FOUND 127

struct host_command {
    const struct heap_config *config;
    char *const *command; /* argv, NULL-terminated */
    const char *output;   /* NULL: a directory of our choice */
    bool follow_children, end_with_command, quiet, no_symbols, memory_infra;
};

struct host_outcome {
    struct output output; /* there where the command was started */
    struct host_result result;
};

/* Runs it and finishes its trace. 0, or a negative errno with a message; the command may have run
 * all the same. */
int host_command_run(const struct host_command *request, struct host_outcome *outcome,
                     struct error *error);

/* Waits for a command that outlives its profile. Its exit code; ends by its signal where it did. */
int host_command_exit_code(struct host_result *result, const char *command);

#endif
