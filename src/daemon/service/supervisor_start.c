/* SPDX-License-Identifier: Apache-2.0 */
/* Start session processes, and share out sessions and the time for attempts to attach. */
#include "daemon/service/supervisor_state.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server/attach_budget.h"
#include "daemon/service/session_process.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/priority.h"

/* Ids are greater than all pids (PID_MAX_LIMIT), so that a number is unambiguous. */
#define FIRST_ID 5000000u
#define IDS 5000000u

/* --- shares --- */

/* Check whether the requester may have one more session. */
static int check_shares(const struct supervisor *supervisor,
                        const struct access_requester *requester, struct error *error)
{
    size_t own = 0;
    for (size_t i = 0; i < supervisor->count; i++)
        own += supervisor->sessions[i]->owner.uid == requester->uid;
    if (requester->uid == 0 && supervisor->count == SUPERVISOR_SESSIONS_MAX)
        return error_set(error, -EMFILE,
                         "%d sessions run already: end one (heap_profile status shows them)",
                         SUPERVISOR_SESSIONS_MAX);
    if (requester->uid == 0)
        return 0;
    if (own >= SUPERVISOR_SESSIONS_OF_A_USER_MAX)
        return error_set(error, -EMFILE, "you have %d sessions already: end one",
                         SUPERVISOR_SESSIONS_OF_A_USER_MAX);
    if (supervisor->count >= SUPERVISOR_SESSIONS_MAX - SUPERVISOR_SESSIONS_OF_ROOT)
        return error_set(error, -EMFILE, "the daemon has no room for one more session: try later");
    return 0;
}

/* Return the share of a user's session if there were `more` of them. */
static uint32_t share_of(const struct supervisor *supervisor, uid_t uid, size_t more)
{
    size_t users = 0, own = more;
    for (size_t i = 0; i < supervisor->count; i++) {
        uid_t owner = supervisor->sessions[i]->owner.uid;
        bool is_first = owner != uid;
        for (size_t j = 0; is_first && j < i; j++)
            is_first = supervisor->sessions[j]->owner.uid != owner;
        users += is_first;
        own += owner == uid;
    }
    return attach_budget_share_ppm(users + 1, own);
}

void supervisor_send_shares(struct supervisor *supervisor)
{
    supervisor->shares_changed = false;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        uint32_t share_ppm = share_of(supervisor, session->owner.uid, 0);
        if (session->socket < 0 || session->share_ppm == share_ppm)
            continue;
        if (session_wire_send_number(session->socket, SESSION_WIRE_SHARE, share_ppm, false) == 0)
            session->share_ppm = share_ppm;
        else
            supervisor->shares_changed = true;
    }
}

/* --- start --- */

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
    };
    session->pid = fork();
    if (session->pid == 0)
        run_child(supervisor, &start);
    code = session->pid < 0 ? -errno : 0;
    if (code == 0)
        priority_restore(session->pid);
    close(ends[1]);
    session_rights_clear(&rights);
    if (code == 0 && (session->pidfd = pidfd_open(session->pid, 0)) < 0)
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

struct supervised *supervisor_start(struct supervisor *supervisor,
                                    const struct supervisor_request *request, struct error *error)
{
    if (check_shares(supervisor, &request->requester, error) < 0)
        return NULL;
    struct supervised *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        error_set(error, -ENOMEM, "no memory for one more session");
        return NULL;
    }
    session->id = choose_id(supervisor);
    session->owner = request->requester;
    session->requester = request->pid;
    session->pidfd = session->socket = session->client = -1;
    session->share_ppm = share_of(supervisor, session->owner.uid, 1);
    session->start_ms = session->last_message_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->end_ms = UINT64_MAX;
    if (start_process(supervisor, session, request, error) < 0) {
        supervisor_close_descriptors(supervisor, session);
        free(session);
        return NULL;
    }
    session->client = request->client;
    session->order = ++supervisor->last_order;
    /* Until its first message assume that it does, so that no process that begins meanwhile is
     * missed. */
    session->wants_new = true;
    supervisor->sessions[supervisor->count++] = session;
    supervisor->shares_changed = true;
    supervisor_announce(supervisor);
    return session;
}
