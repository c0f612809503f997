/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command under the profiler, from creating the output directory to writing names and pprof
 * files beside the trace. `heap_profile host` and `check -- COMMAND` share it. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_HOST_COMMAND_H
#define HEAPPROFD_TOOLS_CLI_RECORD_HOST_COMMAND_H

#include "recorder/host/host.h"
#include "tools/cli/record/finish_profile.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/record/service/tracing_beside.h"

struct host_command {
    const struct heap_config *config;
    char *const *command; /* argv, NULL-terminated */
    const char *output;   /* NULL: a directory of our choice */
    bool follow_children, end_with_command;
    bool view;                     /* show a page meanwhile */
    struct tracing_beside *beside; /* a session of the tracing service meanwhile; NULL: none */
    struct finish_profile_options finish;
};

struct host_outcome {
    struct output output; /* valid if the command was started */
    struct host_result result;
    struct live_view view;
};

/* Run the command and finish its trace. Return 0, or a negative errno with *error set; even then
 * the command may have run. */
int host_command_run(const struct host_command *request, struct host_outcome *outcome,
                     struct error *error);

/* From now on, if memory is out when the command has begun, wait for it and end as it does; with
 * `succeeded` if it succeeds. Call it before host_command_run(), with an outcome that stays. */
void host_command_end_without_memory(struct host_outcome *outcome, int succeeded);

/* Wait for a command that outlives its profile. Return its exit code, or, if a signal killed it,
 * end by that signal. */
int host_command_exit_code(struct host_result *result, const char *command);

#endif
