/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of the sessions that a user may see. A session's figures are those of its last
 * message. Each session has a share of the status, so that the whole fits into a message.
 */
#include "recorder/service/supervisor.h"
#include "util/clock.h"

/* Age at which figures count as old. A session publishes about ten times a second. */
#define SILENT_MS 2000

/* Bounds of one status, which must fit into a message. */
#define STATUS_PROCESSES_MAX 1000
#define STATUS_BYTES_MAX (REQUEST_BYTES_MAX - 8192)

/* Add to a session's own figures what only the supervisor has: its number, owner and age, and the
 * tracing service's name of it. */
static Heapprofd__ControlSession supervisor_status_describe(const struct supervised *session,
                                                            const Heapprofd__ControlSession *state,
                                                            Heapprofd__TracingService *service,
                                                            uint64_t now_ms)
{
    Heapprofd__ControlSession to = HEAPPROFD__CONTROL_SESSION__INIT;
    if (state != NULL)
        to = *state;
    to.has_id = to.has_uid = to.has_elapsed_ms = to.has_pid = true;
    to.pid = session->pid;
    to.id = session->id;
    to.uid = session->owner.uid;
    to.has_requester_pid = true;
    to.requester_pid = session->requester;
    to.elapsed_ms = now_ms - session->start_ms;
    to.has_silent_ms = now_ms > session->last_message_ms + SILENT_MS;
    to.silent_ms = now_ms - session->last_message_ms;
    heapprofd__tracing_service__init(service);
    service->has_session_id = true;
    service->session_id = session->service_session;
    service->data_source = (char *)session->data_source;
    to.service = session->data_source[0] != 0 ? service : NULL;
    return to;
}

void supervisor_send_status(const struct supervisor *supervisor, int fd,
                            const struct access_requester *requester,
                            const struct control_status_profiler *self)
{
    Heapprofd__ControlSession sessions[SUPERVISOR_SESSIONS_MAX];
    Heapprofd__ControlSession *pointers[SUPERVISOR_SESSIONS_MAX];
    Heapprofd__TracingService services[SUPERVISOR_SESSIONS_MAX];
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    size_t share = STATUS_BYTES_MAX / (supervisor->count + 1), count = 0, processes = 0;
    for (size_t i = 0; i < supervisor->count; i++) {
        if (!supervisor_reaches(requester, supervisor->sessions[i]))
            continue;
        Heapprofd__ControlSession *to = &sessions[count];
        const struct supervised *session = supervisor->sessions[i];
        *to = supervisor_status_describe(session, session->state, &services[count], now_ms);
        if (processes + to->n_processes > STATUS_PROCESSES_MAX)
            to->n_processes = 0;
        control_status_fit(to, share);
        /* No session may displace the others. */
        if (heapprofd__control_session__get_packed_size(to) > share)
            *to = supervisor_status_describe(session, NULL, &services[count], now_ms);
        processes += to->n_processes;
        pointers[count++] = to;
    }
    control_status_send(fd, self, pointers, count);
}
