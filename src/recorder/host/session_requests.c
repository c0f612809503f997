/* SPDX-License-Identifier: Apache-2.0 */
/* Answer requests, and keep the connections of those who wait for the end. */
#include "recorder/host/session_requests.h"

#include <control.pb-c.h>
#include <errno.h>
#include <unistd.h>

#include "recorder/processes/access.h"
#include "recorder/service/control_status.h"
#include "util/clock.h"

void session_requests_open(struct session_requests *requests, struct server *server)
{
    *requests =
        (struct session_requests){.server = server, .start_ms = clock_read_ms(CLOCK_MONOTONIC)};
    session_directory_add(server->rendezvous.path, requests->link);
}

static bool is_meant(const struct session *session,
                     const Heapprofd__ControlRequest__Session *wanted)
{
    return session != NULL && (!wanted->has_id || wanted->id == session->id);
}

/* Answer a request. Return true if the connection is kept until the session has ended. */
static bool session_requests_answer(struct session_requests *requests, int fd,
                                    const Heapprofd__ControlRequest *request)
{
    struct session *session = requests->server->session;
    struct access_requester requester;
    pid_t pid;
    if (access_peer(fd, &requester, &pid) < 0 ||
        (requester.uid != geteuid() && requester.uid != 0)) {
        control_send_error(fd, -EPERM, "this session is another user's");
    } else if (request->snapshot != NULL) {
        bool is_ours = is_meant(session, request->snapshot);
        if (is_ours)
            session_dump(session);
        control_send_count(fd, is_ours);
    } else if (request->stop != NULL && !is_meant(session, request->stop)) {
        control_send_count(fd, 0);
    } else if (request->stop != NULL) {
        if (session->over == SESSION_GOES_ON)
            session->over = SESSION_OVER_STOPPED;
        return requests->waiting_count < SESSION_REQUESTS_WAITING_MAX;
    } else if (request->status) {
        control_status_send_own(fd, requests->server, requests->start_ms);
    }
    return false;
}

static void wait_for_end(struct session_requests *requests, int fd)
{
    rendezvous_hold(&requests->server->rendezvous, fd);
    requests->waiting[requests->waiting_count++] = fd;
}

void session_requests_serve(struct session_requests *requests, int fd,
                            const struct peer_message *message)
{
    Heapprofd__ControlRequest *request = control_read_request(message->bytes, message->length);
    /* No request that is served here takes a descriptor. */
    bool is_served = request != NULL && !message->has_descriptors;
    if (request != NULL && request->start != NULL)
        control_send_error(fd, -ENOENT,
                           "no heapprofd is running, only a heap_profile with a "
                           "session of its own");
    if (is_served)
        peer_socket_skip(fd);
    if (is_served && session_requests_answer(requests, fd, request))
        wait_for_end(requests, fd);
    else
        rendezvous_end_connection(&requests->server->rendezvous, fd);
    heapprofd__control_request__free_unpacked(request, NULL);
}

void session_requests_close(struct session_requests *requests)
{
    session_directory_remove(requests->link);
    while (requests->waiting_count > 0) {
        int fd = requests->waiting[--requests->waiting_count];
        control_send_count(fd, 1);
        rendezvous_end_connection(&requests->server->rendezvous, fd);
    }
}
