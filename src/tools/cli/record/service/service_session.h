/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session on the tracing service (option --service), from its configuration to the files and
 * the report. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_SESSION_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/cli/options/options.h"
#include "tools/cli/record/finish_profile.h"

/* The options of verbs that can record through the service. */
struct service_options {
    bool is_wanted;         /* --service, or an option that implies it */
    const char *detach_key; /* leave the session to the service; NULL: wait for its end */
};

/* Take --service, or an option with a key, into a struct service_options. Fail with a message if
 * this build has no tracing. */
option_take take_service, take_detach;
#define SERVICE_OPTIONS(type, member)                                                              \
    OPTION_ENTRY_FLAG("service", type, member, take_service),                                      \
        OPTION_ENTRY_CALL("detach", 0, type, member, take_detach)
#define SERVICE_HELP                                                                               \
    "      --service          record through the running tracing service (traced of Perfetto):\n"  \
    "                         one trace with the data of all its producers\n"                      \
    "      --detach KEY       with the service: leave the session running, and exit\n"

struct service_session {
    const void *config; /* a TraceConfig, serialized or text; NULL: attach */
    size_t config_length;
    bool config_is_text;
    const char *config_name; /* of the file, for messages; NULL: made from options */
    const char *attach_key;  /* take over a detached session */
    bool stops;              /* end that session at once */
    const char *detach_key;
    const char *output;     /* the directory that the user named; NULL: one of our choice */
    const char *trace_path; /* write only a trace, to this path; NULL: write a directory */
    struct finish_profile_options finish;
};

/* Run the session, with its messages on standard error. Return the exit code (enum of
 * record_session.h). */
int service_session_run(const struct service_session *session);

#endif
