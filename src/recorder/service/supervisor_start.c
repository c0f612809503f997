/* SPDX-License-Identifier: Apache-2.0 */
/* Start session processes. */
#include "recorder/service/supervisor_state.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/service/handover.h"
#include "recorder/service/session_process.h"
#include "recorder/service/user_limits.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/kernel_calls.h"
#include "util/priority.h"
#include "util/terminal_text.h"

/* Ids are greater than all pids (PID_MAX_LIMIT), so that a number is unambiguous. */
#define FIRST_ID 5000000u
#define IDS 5000000u

/* Of the orders of continuous mode's sessions: others are asked before them. */
#define CONTINUOUS_ORDER (UINT64_C(1) << 63)

static bool is_known_id(const struct supervisor *supervisor, uint64_t id)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        if (supervisor->sessions[i]->id == id)
            return true;
    }
    return false;
}

static uint64_t choose_id(const struct supervisor *supervisor)
{
    uint64_t id, random;
    do {
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            random = clock_read_ns(CLOCK_MONOTONIC);
        id = FIRST_ID + random % IDS;
    } while (is_known_id(supervisor, id));
    return id;
}

/* In the child: wipe what other sessions have sent, and begin. */
static _Noreturn void run_child(struct supervisor *supervisor, struct session_process_start *start)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        supervisor_wipe_state(supervisor->sessions[i]);
        explicit_bzero(supervisor->sessions[i], sizeof(*supervisor->sessions[i]));
        free(supervisor->sessions[i]);
    }
    run_directory_leave_page(supervisor->directory);
    explicit_bzero(supervisor, sizeof(*supervisor));
    session_process_run(start);
}

static int start_process(struct supervisor *supervisor, struct supervised *session,
                         const struct supervisor_request *request, struct error *error)
{
    int ends[2];
    struct session_rights rights;
    int code = session_rights_of_peer(&rights, request->client, error);
    if (code < 0)
        return code;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        code = error_set(error, -errno, "cannot start a session's process: %s", strerror(errno));
        session_rights_clear(&rights);
        return code;
    }
    session->socket = ends[0];
    struct session_process_start start = {
        .id = session->id,
        .supervisor = ends[1],
        .client = request->client,
        .rights = &rights,
        .requester = request->requester,
        .policy = request->policy,
        .socket_path = request->socket_path,
        .request = request->start,
        .share_ppm = session->share_ppm,
        .may_claim = handover_has_lender(supervisor),
    };
    session->pid = fork();
    if (session->pid == 0)
        run_child(supervisor, &start);
    code = session->pid < 0 ? -errno : 0;
    if (code == 0)
        priority_restore(session->pid);
    close(ends[1]);
    session_rights_clear(&rights);
    if (code == 0 && (session->pidfd = kernel_pidfd_open(session->pid, 0)) < 0)
        code = -errno;
    if (code == 0)
        code = event_loop_watch(supervisor->epoll, EPOLL_CTL_ADD, session->pidfd, EPOLLIN);
    if (code == 0)
        code = event_loop_watch(supervisor->epoll, EPOLL_CTL_ADD, session->socket, EPOLLIN);
    if (code == 0)
        code = event_loop_watch(supervisor->epoll, EPOLL_CTL_MOD, request->client, EPOLLRDHUP);
    if (code < 0 && session->pid > 0) {
        /* It may have begun, and wait for a file. */
        kill(session->pid, SIGKILL);
        peer_sockets_reap_later(&supervisor->rendezvous->ending, session->pid);
    }
    return code < 0
               ? error_set(error, code, "cannot start a session's process: %s", strerror(-code))
               : 0;
}

static void note_service(struct supervised *session, const Heapprofd__TracingService *service)
{
    if (service == NULL)
        return;
    session->service_session = service->session_id;
    terminal_text_escape(service->data_source != NULL ? service->data_source : "unknown", false,
                         session->data_source, sizeof(session->data_source));
}

struct supervised *supervisor_start(struct supervisor *supervisor,
                                    const struct supervisor_request *request, struct error *error)
{
    if (user_limits_check(supervisor, &request->requester, error) < 0)
        return NULL;
    struct supervised *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        error_set(error, -ENOMEM, "no memory for one more session");
        return NULL;
    }
    session->id = choose_id(supervisor);
    session->owner = request->requester;
    session->requester = request->pid;
    note_service(session, request->start->service);
    session->pidfd = session->socket = session->client = -1;
    session->share_ppm = user_limits_attach_share_ppm(supervisor, session->owner.uid, 1);
    session->start_ms = session->last_message_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->end_ms = UINT64_MAX;
    if (start_process(supervisor, session, request, error) < 0) {
        supervisor_close_descriptors(supervisor, session);
        free(session);
        return NULL;
    }
    session->client = request->client;
    session->is_continuous = request->start->continuous;
    session->order = ++supervisor->last_order | (session->is_continuous ? CONTINUOUS_ORDER : 0);
    /* Until its first message assume that it does, so that no process that begins meanwhile is
     * missed. */
    session->wants_new = true;
    supervisor->sessions[supervisor->count++] = session;
    supervisor->shares_changed = true;
    supervisor_announce(supervisor);
    return session;
}
