/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of session processes, from the fork to the end, and their messages. supervisor_status.c
 * answers requests for their status.
 */
#include "daemon/service/supervisor.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/server/attach_budget.h"
#include "daemon/service/control_status.h"
#include "daemon/service/session_process.h"
#include "daemon/sockets/rendezvous.h"
#include "util/clock.h"
#include "util/priority.h"
#include "util/terminal_text.h"

/* Ids are greater than all pids (PID_MAX_LIMIT), so that a number is unambiguous. */
#define FIRST_ID 5000000u
#define IDS 5000000u

/* Messages of one session that are read in one turn. */
#define MESSAGES_AT_ONCE 8
/* After its process has ended, a socket holds no more messages than this many turns read. */
#define LAST_TURNS 64

/* A process that still exists this long after SIGKILL is held by the kernel. */
#define KILLED_MS 1000

/* Time between changes of the control page: each change makes all dormant processes read it. */
#define INVITE_PERIOD_MS 50
/* Period of repeated invitations. A hello may be lost if sessions do not answer in time, or too
 * many come at once. */
#define REMIND_PERIOD_MS 1000

/* Log an event of a user's session. */
__attribute__((format(printf, 3, 4))) static void log_event(const struct supervisor *supervisor,
                                                            const struct supervised *session,
                                                            const char *format, ...)
{
    char line[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    supervisor->user->log(supervisor->user->context, session->owner.uid, line);
}

static void announce(const struct supervisor *supervisor)
{
    bool asks_newcomers = false;
    for (size_t i = 0; i < supervisor->count; i++)
        asks_newcomers |= supervisor->sessions[i]->wants_new && !supervisor->sessions[i]->leaving;
    run_directory_announce(supervisor->directory, asks_newcomers);
}

/* --- shares of the time for attempts to attach --- */

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

/* Send each session its share if that has changed. A session whose socket is full gets it later. */
static void send_shares(struct supervisor *supervisor)
{
    supervisor->shares = false;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        uint32_t share_ppm = share_of(supervisor, session->owner.uid, 0);
        if (session->socket < 0 || session->share_ppm == share_ppm)
            continue;
        if (session_wire_send_number(session->socket, SESSION_WIRE_SHARE, share_ppm, false) == 0)
            session->share_ppm = share_ppm;
        else
            supervisor->shares = true;
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

static void wipe_and_free(void *context, void *block)
{
    (void)context;
    if (block != NULL)
        explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

/* Wipe a session's state, so that no other session's process inherits it in its memory. */
static void wipe_state(struct supervised *session)
{
    ProtobufCAllocator wiping = {.free = wipe_and_free};
    heapprofd__control_session__free_unpacked(session->state, &wiping);
    session->state = NULL;
}

/* In the child: wipe what other sessions have sent, and begin. */
static _Noreturn void run_child(struct supervisor *supervisor, struct session_process_start *start)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        wipe_state(supervisor->sessions[i]);
        explicit_bzero(supervisor->sessions[i], sizeof(*supervisor->sessions[i]));
        free(supervisor->sessions[i]);
    }
    run_directory_leave_page(supervisor->directory);
    explicit_bzero(supervisor, sizeof(*supervisor));
    session_process_run(start);
}

static int watch(const struct supervisor *supervisor, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(supervisor->epoll, operation, fd, &event) < 0 ? -errno : 0;
}

/* Close a session's descriptors. Those left in its sockets may be slow to close. */
static void close_all(struct supervisor *supervisor, struct supervised *session)
{
    /* A session process that was just forked may still have it open: its event would be taken for
     * one of the next descriptor with this number. */
    if (session->pidfd >= 0) {
        epoll_ctl(supervisor->epoll, EPOLL_CTL_DEL, session->pidfd, NULL);
        close(session->pidfd);
    }
    if (session->socket >= 0)
        rendezvous_end_connection(supervisor->rendezvous, session->socket);
    if (session->client >= 0)
        rendezvous_end_connection(supervisor->rendezvous, session->client);
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
        .config = request->start->trace_config.data,
        .config_bytes = request->start->trace_config.len,
        .follow_children = request->start->follow_children,
        .wants_progress = request->start->progress,
        .share_ppm = session->share_ppm,
    };
    session->pid = fork();
    if (session->pid == 0)
        run_child(supervisor, &start);
    code = session->pid < 0 ? -errno : 0;
    if (code == 0)
        priority_give_back(session->pid);
    close(ends[1]);
    session_rights_clear(&rights);
    if (code == 0 && (session->pidfd = pidfd_open(session->pid, 0)) < 0)
        code = -errno;
    if (code == 0)
        code = watch(supervisor, EPOLL_CTL_ADD, session->pidfd, EPOLLIN);
    if (code == 0)
        code = watch(supervisor, EPOLL_CTL_ADD, session->socket, EPOLLIN);
    if (code == 0)
        code = watch(supervisor, EPOLL_CTL_MOD, request->client, EPOLLRDHUP);
    if (code < 0 && session->pid > 0) {
        /* It may have begun, and wait for a file. */
        kill(session->pid, SIGKILL);
        peer_sockets_adopt(&supervisor->rendezvous->ending, session->pid);
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
    session->start_ms = session->heard_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->end_ms = UINT64_MAX;
    if (start_process(supervisor, session, request, error) < 0) {
        close_all(supervisor, session);
        free(session);
        return NULL;
    }
    session->client = request->client;
    session->order = ++supervisor->last_order;
    /* Until its first message assume that it does, so that no process that begins meanwhile is
     * missed. */
    session->wants_new = true;
    supervisor->sessions[supervisor->count++] = session;
    supervisor->shares = true;
    announce(supervisor);
    return session;
}

/* --- whether an ending session works --- */

/* Return the CPU time that the session's process has used, or 0 if it is gone. */
static uint64_t processor_time_ns(const struct supervised *session)
{
    clockid_t clock;
    return clock_getcpuclockid(session->pid, &clock) == 0 ? clock_read_ns(clock) : 0;
}

/* Note that the session should end from now on. */
static void expect_end(struct supervised *session)
{
    if (session->end_ms != UINT64_MAX || session->was_killed)
        return;
    session->end_ms = session->heard_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->used_ns = processor_time_ns(session);
}

static void note_message(struct supervised *session)
{
    session->heard_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (session->end_ms != UINT64_MAX)
        session->used_ns = processor_time_ns(session);
}

/* Return whether the session has computed since its last message or the last check. */
static bool has_worked(struct supervised *session, uint64_t now_ms)
{
    uint64_t used_ns = processor_time_ns(session);
    if (used_ns < session->used_ns + SUPERVISOR_WORK_NS)
        return false;
    session->used_ns = used_ns;
    session->worked_ms = now_ms;
    return true;
}

/* --- messages --- */

static void invite(struct supervisor *supervisor);

static void take_state(struct supervisor *supervisor, struct supervised *session,
                       const uint8_t *bytes, size_t length)
{
    struct session_wire_state head;
    if (!session_wire_read(&head, sizeof(head), bytes, length))
        return;
    Heapprofd__ControlSession *state =
        heapprofd__control_session__unpack(NULL, length - sizeof(head), bytes + sizeof(head));
    if (state == NULL)
        return;
    if (!session->began && !session->leaving)
        log_event(supervisor, session, "session %llu began: uid %u, process %d, interval %llu",
                  (unsigned long long)session->id, (unsigned)session->owner.uid,
                  (int)session->requester, (unsigned long long)state->interval_bytes);
    bool is_first = !session->began;
    session->began = true;
    wipe_state(session);
    session->state = state;
    session->wants_new = head.wants_new != 0;
    announce(supervisor);
    if (!is_first)
        return;
    /* Invite first: then the session answers its client, whose next step may rely on the
     * invitations. */
    uint32_t invited = SESSION_WIRE_INVITED;
    invite(supervisor);
    session_wire_send(session->socket, &invited, sizeof(invited), NULL, 0, -1, false);
}

static void take_awaited(struct supervisor *supervisor, struct supervised *session,
                         const uint8_t *bytes, size_t length)
{
    struct session_wire_number head;
    if (!session_wire_read(&head, sizeof(head), bytes, length) ||
        head.number > SESSION_WIRE_AWAITED_MAX ||
        length - sizeof(head) < head.number * sizeof(session->awaited[0]))
        return;
    memcpy(session->awaited, bytes + sizeof(head), head.number * sizeof(session->awaited[0]));
    session->awaited_count = head.number;
    supervisor->invites = true;
}

static void leave(struct supervisor *supervisor, struct supervised *session)
{
    if (session->leaving)
        return;
    session->leaving = true;
    session->awaited_count = 0;
    supervisor->invites = true;
    expect_end(session);
    announce(supervisor);
    supervisor->user->leaving(supervisor->user->context, session);
}

static void take_end(struct supervisor *supervisor, struct supervised *session,
                     const uint8_t *bytes, size_t length)
{
    struct session_wire_ended ended;
    char message[2 * sizeof(ended.message)];
    if (!session_wire_read(&ended, sizeof(ended), bytes, length) || session->is_over)
        return;
    leave(supervisor, session);
    session->is_over = true;
    ended.message[sizeof(ended.message) - 1] = 0;
    terminal_text_escape(ended.message, false, message, sizeof(message));
    if (ended.began == 0)
        log_event(supervisor, session, "session refused to uid %u, process %d: %s",
                  (unsigned)session->owner.uid, (int)session->requester, message);
    else
        log_event(supervisor, session,
                  "session %llu ended: %u process%s, %llu samples, %llu lost%s%s%s",
                  (unsigned long long)session->id, ended.profiled, ended.profiled == 1 ? "" : "es",
                  (unsigned long long)ended.samples, (unsigned long long)ended.lost,
                  ended.code < 0 ? ", trace incomplete" : "", message[0] != 0 ? ": " : "", message);
}

static void take_message(struct supervisor *supervisor, struct supervised *session,
                         const void *bytes, size_t length)
{
    const struct supervisor_user *user = supervisor->user;
    struct session_wire_answer answer;
    struct session_wire_number number = {0};
    if (!session_wire_read(&number.type, sizeof(number.type), bytes, length))
        return;
    note_message(session);
    switch (number.type) {
    case SESSION_WIRE_ANSWER:
        if (session_wire_read(&answer, sizeof(answer), bytes, length))
            user->answered(user->context, session, answer.ticket, answer.verdict);
        break;
    case SESSION_WIRE_STATE:
        take_state(supervisor, session, bytes, length);
        break;
    case SESSION_WIRE_AWAITED:
        take_awaited(supervisor, session, bytes, length);
        break;
    case SESSION_WIRE_DUMPED:
        if (session_wire_read(&number, sizeof(number), bytes, length))
            user->dumped(user->context, session, number.number);
        break;
    case SESSION_WIRE_LEAVING:
        leave(supervisor, session);
        break;
    case SESSION_WIRE_ENDED:
        take_end(supervisor, session, bytes, length);
        break;
    default:
        break;
    }
}

/* Close the session's socket: no more messages will come. */
static void close_socket(struct supervisor *supervisor, struct supervised *session)
{
    rendezvous_end_connection(supervisor->rendezvous, session->socket);
    session->socket = -1;
}

static void read_messages(struct supervisor *supervisor, struct supervised *session)
{
    struct peer_message message;
    for (int i = 0; i < MESSAGES_AT_ONCE && session->socket >= 0; i++) {
        ssize_t got = peer_socket_peek(session->socket, &message);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        /* No message of a session has a descriptor, so another program has taken the session over.
         */
        if (got > 0 && message.has_descriptors)
            kill(session->pid, SIGKILL);
        if (got <= 0 || message.has_descriptors) {
            close_socket(supervisor, session);
            return;
        }
        peer_socket_skip(session->socket);
        take_message(supervisor, session, message.bytes, message.length);
    }
}

/* --- ends --- */

static void explain_death(struct supervisor *supervisor, struct supervised *session, int status)
{
    char how[128], message[256];
    if (session->is_over)
        return;
    if (session->was_killed)
        snprintf(how, sizeof(how), "did not end in time, and was killed");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
    snprintf(message, sizeof(message), "the process of this session %s: the trace is incomplete",
             how);
    control_send_error(session->client, -EIO, message);
    log_event(supervisor, session, "session %llu of uid %u: its process %d %s",
              (unsigned long long)session->id, (unsigned)session->owner.uid, (int)session->pid,
              how);
}

static void forget(struct supervisor *supervisor, struct supervised *session)
{
    size_t at = 0;
    while (supervisor->sessions[at] != session)
        at++;
    supervisor->count--;
    supervisor->shares = true;
    memmove(&supervisor->sessions[at], &supervisor->sessions[at + 1],
            (supervisor->count - at) * sizeof(*supervisor->sessions));
    supervisor->user->ended(supervisor->user->context, session);
    close_all(supervisor, session);
    wipe_state(session);
    free(session);
}

static void reap(struct supervisor *supervisor, struct supervised *session)
{
    int status = 0;
    /* Its last messages may still be unread. */
    for (int i = 0; i < LAST_TURNS && session->socket >= 0; i++)
        read_messages(supervisor, session);
    if (waitpid(session->pid, &status, WNOHANG) == 0)
        return;
    leave(supervisor, session);
    explain_death(supervisor, session, status);
    forget(supervisor, session);
}

static void handle_client_gone(struct supervisor *supervisor, struct supervised *session)
{
    /* The session process sees this, too, and should end. */
    epoll_ctl(supervisor->epoll, EPOLL_CTL_DEL, session->client, NULL);
    expect_end(session);
}

bool supervisor_serve(struct supervisor *supervisor, int fd)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        if (fd == session->socket)
            read_messages(supervisor, session);
        else if (fd == session->pidfd)
            reap(supervisor, session);
        else if (fd == session->client)
            handle_client_gone(supervisor, session);
        else
            continue;
        return true;
    }
    return false;
}

/* --- due work --- */

/* Invite processes. All sessions share the page, so take the first process of each session, then
 * the second of each, and so on. A session that lists processes of other users does not have their
 * secrets, so its invitations reach nobody. */
static void invite(struct supervisor *supervisor)
{
    struct invited invited[CONTROL_PAGE_INVITED_MAX];
    size_t count = 0;
    bool any = true;
    supervisor->invites = false;
    for (size_t turn = 0; any; turn++) {
        any = false;
        for (size_t i = 0; i < supervisor->count; i++) {
            const struct supervised *session = supervisor->sessions[i];
            if (turn >= session->awaited_count)
                continue;
            any = count < CONTROL_PAGE_INVITED_MAX;
            if (any)
                invited[count++] = session->awaited[turn];
        }
    }
    run_directory_invite(supervisor->directory, invited, count);
}

static bool awaits_any(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        if (supervisor->sessions[i]->awaited_count > 0)
            return true;
    }
    return false;
}

/* Return when to kill the session. */
static uint64_t patience_ends_ms(const struct supervised *session)
{
    if (session->end_ms == UINT64_MAX)
        return UINT64_MAX;
    if (session->was_killed)
        return session->end_ms + KILLED_MS;
    uint64_t alive_ms =
        session->worked_ms > session->heard_ms ? session->worked_ms : session->heard_ms;
    uint64_t silence_ms = alive_ms + SUPERVISOR_SILENCE_MS;
    uint64_t whole_ms = session->end_ms + SUPERVISOR_END_MS;
    return silence_ms < whole_ms ? silence_ms : whole_ms;
}

uint64_t supervisor_do_due(struct supervisor *supervisor, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    if (supervisor->shares)
        send_shares(supervisor);
    if (supervisor->invites && now_ms >= supervisor->invite_ms) {
        supervisor->invite_ms = now_ms + INVITE_PERIOD_MS;
        invite(supervisor);
    }
    if (supervisor->invites)
        next_ms = supervisor->invite_ms;
    if (awaits_any(supervisor) && now_ms >= supervisor->remind_ms) {
        supervisor->remind_ms = now_ms + REMIND_PERIOD_MS;
        invite(supervisor);
    }
    if (awaits_any(supervisor) && supervisor->remind_ms < next_ms)
        next_ms = supervisor->remind_ms;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        uint64_t patience_ms = patience_ends_ms(session);
        if (patience_ms <= now_ms && !session->was_killed && has_worked(session, now_ms))
            patience_ms = patience_ends_ms(session);
        if (patience_ms <= now_ms && !session->was_killed) {
            session->was_killed = true;
            session->end_ms = now_ms;
            kill(session->pid, SIGKILL);
            if (now_ms + KILLED_MS < next_ms)
                next_ms = now_ms + KILLED_MS;
        } else if (patience_ms <= now_ms) {
            /* The kernel holds it, for example in a write to a file that does not answer. It still
             * counts as one of its owner's sessions. */
            session->end_ms = UINT64_MAX;
            log_event(supervisor, session,
                      "session %llu of uid %u: its process %d was killed, and waits in the kernel",
                      (unsigned long long)session->id, (unsigned)session->owner.uid,
                      (int)session->pid);
            supervisor->user->ended(supervisor->user->context, session);
        } else if (patience_ms < next_ms) {
            next_ms = patience_ms;
        }
    }
    return next_ms;
}

/* --- requests --- */

int supervisor_snapshot(struct supervised *session, uint32_t ticket)
{
    if (session->socket < 0 || session->leaving)
        return -EPIPE;
    return session_wire_send_number(session->socket, SESSION_WIRE_SNAPSHOT, ticket, false);
}

bool supervisor_is_held(const struct supervised *session)
{
    return session->was_killed && session->end_ms == UINT64_MAX;
}

void supervisor_stop(struct supervised *session, Heapprofd__ControlReply__End__Reason reason)
{
    /* A session that accepts no messages is killed for its silence. */
    if (session->socket >= 0)
        session_wire_send_number(session->socket, SESSION_WIRE_STOP, (uint32_t)reason, false);
    expect_end(session);
}

bool supervisor_reaches(const struct access_requester *requester, const struct supervised *session)
{
    return requester->may_all || requester->uid == session->owner.uid;
}

void supervisor_close(struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++)
        supervisor_stop(supervisor->sessions[i],
                        HEAPPROFD__CONTROL_REPLY__END__REASON__DAEMON_ENDS);
    while (supervisor->count > 0) {
        struct epoll_event event;
        uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
        uint64_t next_ms = supervisor_do_due(supervisor, now_ms);
        bool all_killed = true;
        for (size_t i = 0; i < supervisor->count; i++)
            all_killed &= supervisor->sessions[i]->was_killed;
        int wait_ms = next_ms == UINT64_MAX ? 1000 : next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
        int got = epoll_wait(supervisor->epoll, &event, 1, wait_ms);
        /* No other peers are served any more. */
        if (got == 1 && !supervisor_serve(supervisor, event.data.fd))
            epoll_ctl(supervisor->epoll, EPOLL_CTL_DEL, event.data.fd, NULL);
        /* A process that the kernel holds does not even die. */
        if (got == 0 && all_killed)
            break;
    }
    while (supervisor->count > 0)
        forget(supervisor, supervisor->sessions[0]);
}
