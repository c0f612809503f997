/* SPDX-License-Identifier: Apache-2.0 */
/* The reports wait in an array until the session's loop takes them. */
#include "recorder/tracing/consumer/snapshots.h"

#include <stdio.h>
#include <string.h>

typedef Perfetto__Protos__ObservableEvents__CloneTriggerHit TriggerHit;

static void add_due(struct snapshots *snapshots, const TriggerHit *hit)
{
    if (snapshots->due_count == SNAPSHOTS_DUE_MAX) {
        snapshots->missed++;
        return;
    }
    struct snapshot_due *due = &snapshots->due[snapshots->due_count++];
    *due = (struct snapshot_due){
        .session_id = (uint64_t)hit->tracing_session_id,
        .boot_time_ns = hit->boot_time_ns,
        .delay_ms = hit->trigger_delay_ms,
        .producer_uid = hit->producer_uid,
    };
    if (hit->trigger_name != NULL)
        snprintf(due->trigger, sizeof(due->trigger), "%s", hit->trigger_name);
    if (hit->producer_name != NULL)
        snprintf(due->producer, sizeof(due->producer), "%s", hit->producer_name);
}

static int handle_events(void *context, struct tracing_reply *reply, struct error *error)
{
    if (!reply->success)
        return 0;
    Perfetto__Protos__ObserveEventsResponse *response =
        perfetto__protos__observe_events_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return error_set(error, -EPROTO, "the tracing service sent a malformed event");
    if (response->events != NULL && response->events->clone_trigger_hit != NULL)
        add_due(context, response->events->clone_trigger_hit);
    perfetto__protos__observe_events_response__free_unpacked(response, NULL);
    return 0;
}

int snapshots_observe(struct snapshots *snapshots, struct consumer *consumer, struct error *error)
{
    Perfetto__Protos__ObservableEvents__Type type =
        PERFETTO__PROTOS__OBSERVABLE_EVENTS__TYPE__TYPE_CLONE_TRIGGER_HIT;
    Perfetto__Protos__ObserveEventsRequest request = PERFETTO__PROTOS__OBSERVE_EVENTS_REQUEST__INIT;
    request.n_events_to_observe = 1;
    request.events_to_observe = &type;
    *snapshots = (struct snapshots){0};
    return tracing_connection_invoke(consumer->connection, "ObserveEvents", &request.base, -1,
                                     handle_events, snapshots, error);
}

bool snapshots_take(struct snapshots *snapshots, struct snapshot_due *due)
{
    if (snapshots->due_count == 0)
        return false;
    *due = snapshots->due[0];
    snapshots->due_count--;
    memmove(snapshots->due, snapshots->due + 1, snapshots->due_count * sizeof(*snapshots->due));
    return true;
}

struct clone_call {
    bool is_done, success;
    char reason[160];
};

static int handle_cloned(void *context, struct tracing_reply *reply, struct error *error)
{
    struct clone_call *call = context;
    call->is_done = true;
    if (!reply->success) {
        if (reply->refusal != NULL)
            snprintf(call->reason, sizeof(call->reason), ": %.150s", reply->refusal);
        return 0;
    }
    /* A later reply would come when this call is over. */
    Perfetto__Protos__CloneSessionResponse *response =
        reply->has_more
            ? NULL
            : perfetto__protos__clone_session_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return error_set(error, -EPROTO,
                         "the tracing service sent a malformed reply to CloneSession");
    call->success = response->success;
    if (response->error != NULL)
        snprintf(call->reason, sizeof(call->reason), ": %.150s", response->error);
    perfetto__protos__clone_session_response__free_unpacked(response, NULL);
    return 0;
}

int snapshots_clone(const struct snapshot_due *due, struct consumer *consumer, struct error *error)
{
    Perfetto__Protos__CloneSessionRequest request = PERFETTO__PROTOS__CLONE_SESSION_REQUEST__INIT;
    request.selector_case = PERFETTO__PROTOS__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID;
    request.session_id = due->session_id;
    request.clone_trigger_name = (char *)due->trigger;
    request.clone_trigger_producer_name = (char *)due->producer;
    request.has_clone_trigger_trusted_producer_uid = request.has_clone_trigger_boot_time_ns =
        request.has_clone_trigger_delay_ms = true;
    request.clone_trigger_trusted_producer_uid = (int32_t)due->producer_uid;
    request.clone_trigger_boot_time_ns = due->boot_time_ns;
    request.clone_trigger_delay_ms = due->delay_ms;
    struct clone_call call = {0};
    int code = consumer_invoke(consumer, "CloneSession", &request.base, handle_cloned, &call,
                               &call.is_done, error);
    if (code < 0 || call.success)
        return code;
    return error_set(error, -EREMOTEIO, "%s: the tracing service took no snapshot%s",
                     tracing_connection_name(consumer->connection), call.reason);
}
