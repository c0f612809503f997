/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the messages of session processes, invite the processes that they await, and end them.
 * supervisor_start.c starts them, and supervisor_status.c answers requests for their status.
 */
#include "recorder/service/supervisor_state.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/service/handover.h"
#include "recorder/service/user_limits.h"
#include "recorder/sockets/rendezvous.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/terminal_text.h"

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

void supervisor_announce(const struct supervisor *supervisor)
{
    bool asks_newcomers = false;
    for (size_t i = 0; i < supervisor->count; i++)
        asks_newcomers |= supervisor->sessions[i]->wants_new && !supervisor->sessions[i]->leaving;
    run_directory_announce(supervisor->directory, asks_newcomers);
}

/* Send each session its share of the time for attempts to attach if that has changed. A session
 * whose socket is full gets it later. */
static void send_shares(struct supervisor *supervisor)
{
    supervisor->shares_changed = false;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        uint32_t share_ppm = user_limits_attach_share_ppm(supervisor, session->owner.uid, 0);
        if (session->socket < 0 || session->share_ppm == share_ppm)
            continue;
        if (session_wire_send_number(session->socket, SESSION_WIRE_SHARE, share_ppm, false) == 0)
            session->share_ppm = share_ppm;
        else
            supervisor->shares_changed = true;
    }
}

/* Send the policy to the sessions that have an old one. */
static void send_policy(struct supervisor *supervisor)
{
    uint32_t head = SESSION_WIRE_POLICY;
    size_t length;
    void *bytes = access_policy_pack(supervisor->policy, &length);
    supervisor->policy_changed = bytes == NULL;
    for (size_t i = 0; i < supervisor->count && bytes != NULL; i++) {
        struct supervised *session = supervisor->sessions[i];
        if (!session->policy_is_old || session->socket < 0)
            continue;
        session->policy_is_old =
            session_wire_send(session->socket, &head, sizeof(head), bytes, length, -1, false) < 0;
        supervisor->policy_changed |= session->policy_is_old;
    }
    free(bytes);
}

void supervisor_pass_policy(struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++)
        supervisor->sessions[i]->policy_is_old = true;
    send_policy(supervisor);
}

static void wipe_and_free(void *context, void *block)
{
    (void)context;
    if (block != NULL)
        explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

void supervisor_wipe_state(struct supervised *session)
{
    ProtobufCAllocator wiping = {.free = wipe_and_free};
    heapprofd__control_session__free_unpacked(session->state, &wiping);
    session->state = NULL;
}

void supervisor_close_descriptors(struct supervisor *supervisor, struct supervised *session)
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

/* Invite processes. All sessions share the page, so take the first process of each session, then
 * the second of each, and so on. A session that lists processes of other users does not have their
 * secrets, so its invitations reach nobody. */
static void invite(struct supervisor *supervisor)
{
    struct invited invited[CONTROL_PAGE_INVITED_MAX];
    size_t count = 0;
    bool any = true;
    supervisor->invitations_changed = false;
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
    session->end_ms = session->last_message_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->used_ns = processor_time_ns(session);
}

static void note_message(struct supervised *session)
{
    session->last_message_ms = clock_read_ms(CLOCK_MONOTONIC);
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

static void log_beginning(struct supervisor *supervisor, const struct supervised *session,
                          uint64_t interval_bytes)
{
    char service[96] = "";
    if (session->data_source[0] != 0)
        snprintf(service, sizeof(service), ", data source %s of tracing session %llu",
                 session->data_source, (unsigned long long)session->service_session);
    event_log_write(supervisor->log, session->owner.uid,
                    "session %llu began: uid %u, requested by process %d, interval %llu%s",
                    (unsigned long long)session->id, (unsigned)session->owner.uid,
                    (int)session->requester, (unsigned long long)interval_bytes, service);
}

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
        log_beginning(supervisor, session, state->interval_bytes);
    bool is_first = !session->began;
    session->began = true;
    supervisor_wipe_state(session);
    session->state = state;
    session->wants_new = head.wants_new != 0;
    supervisor_announce(supervisor);
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
    supervisor->invitations_changed = true;
}

static void leave(struct supervisor *supervisor, struct supervised *session)
{
    if (session->leaving)
        return;
    session->leaving = true;
    session->awaited_count = 0;
    supervisor->invitations_changed = true;
    expect_end(session);
    supervisor_announce(supervisor);
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
        event_log_write(supervisor->log, session->owner.uid,
                        "session refused to uid %u, process %d: %s", (unsigned)session->owner.uid,
                        (int)session->requester, message);
    else
        event_log_write(supervisor->log, session->owner.uid,
                        "session %llu ended: %u process%s, %llu samples, %llu lost%s%s%s",
                        (unsigned long long)session->id, ended.profiled,
                        ended.profiled == 1 ? "" : "es", (unsigned long long)ended.samples,
                        (unsigned long long)ended.lost, ended.code < 0 ? ", trace incomplete" : "",
                        message[0] != 0 ? ": " : "", message);
}

static void take_message(struct supervisor *supervisor, struct supervised *session,
                         const void *bytes, size_t length)
{
    const struct supervisor_user *user = supervisor->user;
    struct session_wire_answer answer;
    struct session_wire_number number = {0};
    struct session_wire_lend lend;
    if (!session_wire_read(&number.type, sizeof(number.type), bytes, length))
        return;
    note_message(session);
    if (number.type != SESSION_WIRE_ALIVE)
        session->last_turn_ms = session->last_message_ms;
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
    case SESSION_WIRE_CLAIM:
        if (session_wire_read(&number, sizeof(number), bytes, length))
            handover_claim(supervisor, session, (pid_t)number.number);
        break;
    case SESSION_WIRE_LENT:
        if (session_wire_read(&lend, sizeof(lend), bytes, length))
            handover_lent(supervisor, &lend);
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
    event_log_write(supervisor->log, session->owner.uid,
                    "session %llu of uid %u: its process %d %s", (unsigned long long)session->id,
                    (unsigned)session->owner.uid, (int)session->pid, how);
}

static void supervisor_forget(struct supervisor *supervisor, struct supervised *session)
{
    size_t at = 0;
    while (supervisor->sessions[at] != session)
        at++;
    supervisor->count--;
    supervisor->shares_changed = true;
    memmove(&supervisor->sessions[at], &supervisor->sessions[at + 1],
            (supervisor->count - at) * sizeof(*supervisor->sessions));
    supervisor->user->ended(supervisor->user->context, session);
    handover_end(supervisor, session);
    supervisor_close_descriptors(supervisor, session);
    supervisor_wipe_state(session);
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
    supervisor_forget(supervisor, session);
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

static bool awaits_any(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        if (supervisor->sessions[i]->awaited_count > 0)
            return true;
    }
    return false;
}

/* Return when to kill the session. */
static uint64_t kill_time_ms(const struct supervised *session)
{
    if (session->end_ms == UINT64_MAX)
        return UINT64_MAX;
    if (session->was_killed)
        return session->end_ms + KILLED_MS;
    uint64_t alive_ms = session->worked_ms > session->last_message_ms ? session->worked_ms
                                                                      : session->last_message_ms;
    uint64_t silence_ms = alive_ms + SUPERVISOR_SILENCE_MS;
    uint64_t whole_ms = session->end_ms + SUPERVISOR_END_MS;
    /* One of the tracing service is silent while it waits for the service to take its dumps. */
    return session->data_source[0] != '\0' ? whole_ms : clock_earlier(silence_ms, whole_ms);
}

uint64_t supervisor_do_due(struct supervisor *supervisor, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    if (supervisor->shares_changed)
        send_shares(supervisor);
    if (supervisor->policy_changed)
        send_policy(supervisor);
    if (supervisor->invitations_changed && now_ms >= supervisor->invite_ms) {
        supervisor->invite_ms = now_ms + INVITE_PERIOD_MS;
        invite(supervisor);
    }
    if (supervisor->invitations_changed)
        next_ms = supervisor->invite_ms;
    if (awaits_any(supervisor) && now_ms >= supervisor->remind_ms) {
        supervisor->remind_ms = now_ms + REMIND_PERIOD_MS;
        invite(supervisor);
    }
    if (awaits_any(supervisor))
        next_ms = clock_earlier(next_ms, supervisor->remind_ms);
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        uint64_t kill_ms = kill_time_ms(session);
        if (kill_ms <= now_ms && !session->was_killed && has_worked(session, now_ms))
            kill_ms = kill_time_ms(session);
        if (kill_ms <= now_ms && !session->was_killed) {
            session->was_killed = true;
            session->end_ms = now_ms;
            kill(session->pid, SIGKILL);
            next_ms = clock_earlier(next_ms, now_ms + KILLED_MS);
        } else if (kill_ms <= now_ms) {
            /* The kernel holds it, for example in a write to a file that does not answer. It still
             * counts as one of its owner's sessions. */
            session->end_ms = UINT64_MAX;
            event_log_write(
                supervisor->log, session->owner.uid,
                "session %llu of uid %u: its process %d was killed, and waits in the kernel",
                (unsigned long long)session->id, (unsigned)session->owner.uid, (int)session->pid);
            supervisor->user->ended(supervisor->user->context, session);
        } else {
            next_ms = clock_earlier(next_ms, kill_ms);
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

bool supervisor_is_stuck(const struct supervised *session)
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

void supervisor_name(const struct supervised *session, const struct supervised *reader,
                     char name[SESSION_NAME_BYTES])
{
    if (supervisor_reaches(&reader->owner, session))
        snprintf(name, SESSION_NAME_BYTES, "number %llu of process %d",
                 (unsigned long long)session->id, (int)session->pid);
    else
        snprintf(name, SESSION_NAME_BYTES, "of another user");
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
        int wait_ms = event_loop_timeout(now_ms, clock_earlier(next_ms, now_ms + 1000));
        int got = epoll_wait(supervisor->epoll, &event, 1, wait_ms);
        /* No other peers are served any more. */
        if (got == 1 && !supervisor_serve(supervisor, event.data.fd))
            epoll_ctl(supervisor->epoll, EPOLL_CTL_DEL, event.data.fd, NULL);
        /* A process that the kernel holds does not even die. */
        if (got == 0 && all_killed)
            break;
    }
    while (supervisor->count > 0)
        supervisor_forget(supervisor, supervisor->sessions[0]);
}
