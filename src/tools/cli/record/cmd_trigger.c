/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile trigger: activates triggers of sessions of the tracing service. */
#include <stdio.h>
#include <string.h>
#include <tracing_service.pb-c.h>

#include "recorder/tracing/ipc/connection.h"
#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "util/clock.h"

#define REPLY_MS 10000

static const char help[] =
    "usage: heap_profile trigger NAME...\n"
    "\n"
    "Activates triggers: sessions of the running tracing service whose configuration waits for "
    "one\n"
    "of these names (trigger_config) begin or end recording, or save what they have.\n"
    "\n"
    "The service's producer socket is PERFETTO_PRODUCER_SOCK_NAME, or\n"
    "/run/perfetto/traced-producer.sock, or /tmp/perfetto-producer.\n"
    "\n"
    "Exit code: 0, 1 if the service cannot be reached or refuses, 2 for wrong usage. It is not "
    "known\n"
    "whether a session waited.\n"
    "\n"
    "See also: heap_profile record --service.\n";

struct call {
    struct tracing_connection *connection;
    const char *method;
    bool is_done;
};

static int handle_reply(void *context, struct tracing_reply *reply, struct error *error)
{
    struct call *call = context;
    /* A later reply would come when this call is over. */
    if (reply->has_more)
        return error_set(error, -EPROTO, "%s: the tracing service sent more than one reply to %s",
                         tracing_connection_name(call->connection), call->method);
    call->is_done = true;
    return reply->success ? 0 : tracing_reply_refused(call->connection, call->method, reply, error);
}

static int invoke(struct tracing_connection *connection, const char *method,
                  const ProtobufCMessage *request, uint64_t deadline_ms, struct error *error)
{
    struct call call = {.connection = connection, .method = method};
    int code =
        tracing_connection_invoke(connection, method, request, -1, handle_reply, &call, error);
    while (code == 0 && !call.is_done)
        code = tracing_connection_wait(connection, deadline_ms, error);
    return code;
}

static int activate(struct tracing_connection *connection, char **names, size_t count,
                    struct error *error)
{
    uint64_t deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + REPLY_MS;
    Perfetto__Protos__InitializeConnectionRequest initialize =
        PERFETTO__PROTOS__INITIALIZE_CONNECTION_REQUEST__INIT;
    Perfetto__Protos__ActivateTriggersRequest triggers =
        PERFETTO__PROTOS__ACTIVATE_TRIGGERS_REQUEST__INIT;
    initialize.producer_name = "heap_profile";
    triggers.trigger_names = names;
    triggers.n_trigger_names = count;
    int code = 0;
    while (code == 0 && !tracing_connection_is_bound(connection))
        code = tracing_connection_wait(connection, deadline_ms, error);
    if (code == 0)
        code = invoke(connection, "InitializeConnection", &initialize.base, deadline_ms, error);
    if (code == 0)
        code = invoke(connection, "ActivateTriggers", &triggers.base, deadline_ms, error);
    return code;
}

int cmd_trigger(int argc, char **argv)
{
    static const struct option_entry options[] = {OPTIONS_END};
    static const struct verb_line line = {"heap_profile trigger", help, options, false};
    struct error error = {0};
    int code = options_parse(&line, argc, argv, NULL);
    if (code >= 0)
        return code;
    if (optind == argc) {
        fputs(help, stderr);
        return VERB_USAGE;
    }
    struct tracing_socket socket = tracing_socket_choose(TRACING_PRODUCER_PORT, NULL);
    struct tracing_connection *connection = tracing_connection_open(&socket, &error);
    code = connection == NULL
               ? -1
               : activate(connection, argv + optind, (size_t)(argc - optind), &error);
    tracing_connection_close(connection);
    return code < 0 ? verb_fail(&error) : VERB_DONE;
}
