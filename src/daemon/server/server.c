/* SPDX-License-Identifier: Apache-2.0 */
/* Answer hellos, drain rings, and do what is due in each session. */
#include "daemon/server/server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/processes/exec_events.h"
#include "daemon/server/target_discovery.h"
#include "util/clock.h"

/* Period of the timelines' points, and of calls of `progress`. */
#define SAMPLE_PERIOD_MS 100

/* Rings are drained so often that each drain finds about a sixteenth of a ring, and at least this
 * often. At small intervals the longest delay is shorter: an idle program may suddenly write
 * hundreds of megabytes a second, and must not fill its ring before the next drain. */
#define DRAIN_DELAY_MAX_MS 50
#define DRAIN_DELAY_MAX_DENSE_MS 5
#define DENSE_INTERVAL_BYTES 256

#define EVENTS_AT_ONCE 64

/* How long a thread may stay stopped that stopped only after an attempt to attach had failed. */
#define TIDY_PERIOD_MS 2

int server_watch(const struct server *server, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int server_open_without_socket(struct server *server, const struct server_user *user,
                               const char *socket_path, struct error *error)
{
    memset(server, 0, sizeof(*server));
    server->user = user;
    server->socket_path = socket_path;
    server->drain_ms = server->wake_ms = UINT64_MAX;
    server->rendezvous.listener = server->rendezvous.spare = server->exec_events = -1;
    server->rendezvous.epoll = -1;
    server->attach_budget.share_ppm = attach_budget_share_ppm(1, 1);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll < 0)
        return error_set(error, -errno, "cannot set up the profiler's event loop: %s",
                         strerror(errno));
    return 0;
}

int server_open(struct server *server, const struct server_user *user, const char *directory,
                int listener, struct error *error)
{
    int code = server_open_without_socket(server, user, server->rendezvous.path, error);
    if (code < 0)
        return code;
    return rendezvous_open(&server->rendezvous, server->epoll, directory, listener, error);
}

void server_close(struct server *server)
{
    exec_events_close(server->exec_events);
    rendezvous_close(&server->rendezvous);
    if (server->epoll >= 0)
        close(server->epoll);
    server->epoll = server->exec_events = -1;
}

static void drain_others(void *context, const struct session *session)
{
    struct server *server = context;
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i] != session)
            session_drain(server->sessions[i]);
    }
    if (server->user->busy != NULL)
        server->user->busy(server->user->context);
}

int server_add_session(struct server *server, struct session *session)
{
    if (server->session_count == SERVER_SESSIONS_MAX)
        return -EMFILE;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    const struct heap_config *config = session->config;
    session->start_ms = now_ms;
    session->sample_ms = now_ms + SAMPLE_PERIOD_MS;
    session->end_ms = config->duration_ms > 0 ? now_ms + config->duration_ms : UINT64_MAX;
    session->dump_ms = UINT64_MAX;
    if (config->dump_interval_ms > 0)
        session->dump_ms =
            now_ms + (config->dump_phase_ms > 0 ? config->dump_phase_ms : config->dump_interval_ms);
    /* No checkpoints: a stream of events goes on while a dump is written, and would be withdrawn
     * with it. */
    if (config->stream_allocations)
        session->checkpoints.due_ms = UINT64_MAX;
    else
        checkpoints_start(&session->checkpoints, now_ms);
    session->drain_others = drain_others;
    session->drain_context = server;
    session->refused = server->user->refused;
    session->refused_context = server->user->context;
    server->sessions[server->session_count++] = session;
    server->drain_ms = now_ms;
    server->drain_delay_ms = 1;
    return 0;
}

void server_remove_session(struct server *server, struct session *session)
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i] != session)
            continue;
        server->session_count--;
        memmove(&server->sessions[i], &server->sessions[i + 1],
                (server->session_count - i) * sizeof(*server->sessions));
        discovery_listen(server);
        return;
    }
}

/* --- hellos --- */

void server_look_soon(struct server *server)
{
    server->drain_delay_ms = 1;
    server->drain_ms = clock_read_ms(CLOCK_MONOTONIC) + 1;
}

static void refuse(struct handshake_reply *reply)
{
    *reply = (struct handshake_reply){
        .magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION, .verdict = HANDSHAKE_NOT_A_TARGET};
}

/* Answer a hello. The first session that wants the process gets it. Other sessions that want it
 * note in their traces that it belongs to another session. */
static int answer_hello(void *context, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply,
                        int *memfd)
{
    struct server *server = context;
    struct process_info info;
    (void)fd;
    int code = handshake_hello_is_sound(hello) && pid > 0 ? process_info_read(&info, pid) : -EPROTO;
    if (code < 0)
        return code;
    refuse(reply);
    int verdict = 0;
    bool answered = false;
    char whose[SESSION_NAME_BYTES] = "";
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        if (verdict > 0) {
            session_reject(session, pid, (enum handshake_origin)hello->origin, whose);
            continue;
        }
        verdict = session_hello(session, &info, uid, hello, reply, memfd);
        answered |= verdict >= 0;
        if (verdict > 0) {
            server_look_soon(server);
            session_print_name(session, whose);
            /* The caller who started a command also waits for its end. */
            if (pid != session->command_pid)
                server_watch(server, session_find(session, pid)->pidfd);
        }
    }
    if (verdict != 1)
        process_info_clear(&info);
    return verdict == 1 ? 1 : answered || server->session_count == 0 ? 0 : -EPERM;
}

int server_take_hello(struct server *server, int fd, pid_t pid, uid_t uid,
                      const struct handshake_hello *hello)
{
    struct handshake_reply reply;
    int memfd = -1;
    int verdict = answer_hello(server, fd, pid, uid, hello, &reply, &memfd);
    /* If it was attached to instead, its preloaded library stays dormant. */
    bool is_taken = verdict == 1;
    for (size_t i = 0; i < server->session_count; i++)
        is_taken |= verdict == 0 && session_profiles(server->sessions[i], pid);
    if (is_taken)
        rendezvous_reply(fd, &reply, memfd);
    if (memfd >= 0)
        close(memfd);
    return is_taken ? 1 : verdict;
}

static bool handle_ended_process(struct server *server, int pidfd)
{
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        for (size_t j = 0; j < session->target_count; j++) {
            if (session->targets[j]->pidfd != pidfd)
                continue;
            /* An event of a closed pidfd may still come, and its number belong to another one. */
            if (target_is_dead(session->targets[j]))
                session_process_ended(session, session->targets[j]->info.pid, -1);
            return true;
        }
    }
    return false;
}

/* --- due work --- */

static void look(struct server *server, uint64_t now_ms)
{
    uint64_t longest = DRAIN_DELAY_MAX_MS, delay = server->drain_delay_ms;
    uint64_t fullest = 0, wanted = UINT64_MAX;
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        uint64_t bytes = session_take_in(session);
        if (session->config->sampling_interval_bytes <= DENSE_INTERVAL_BYTES)
            longest = DRAIN_DELAY_MAX_DENSE_MS;
        if (bytes > fullest)
            fullest = bytes;
        if (session->ring_bytes / 16 < wanted)
            wanted = session->ring_bytes / 16;
    }
    if (delay == 0)
        delay = 1;
    if (fullest > 2 * wanted)
        delay = 0;
    else if (fullest > wanted)
        delay = delay * wanted / fullest;
    else if (fullest < wanted / 2)
        delay *= 2;
    server->drain_delay_ms = delay < longest ? delay : longest;
    server->drain_ms = server->session_count > 0 ? now_ms + server->drain_delay_ms : UINT64_MAX;
}

/* Do what is due in a session. Return when something will be due again. */
static uint64_t do_due_of(struct server *server, struct session *session, uint64_t now_ms)
{
    const struct server_user *user = server->user;
    if (now_ms >= session->sample_ms) {
        if (session->of_command)
            session_handle_execs(session, NULL, NULL);
        else
            discovery_follow_execs(server, session);
        session_sample_memory(session);
        session_check_guardrails(session);
        if (!session->of_command) {
            discovery_new(server, session);
            if (session->over == SESSION_GOES_ON && discovery_is_spent(session))
                session->over = SESSION_OVER_ENDED;
        }
        if (user->progress != NULL)
            user->progress(user->context, session, now_ms);
        session->sample_ms = now_ms + SAMPLE_PERIOD_MS;
    }
    if (now_ms >= session->dump_ms) {
        session_dump(session);
        /* In step with the clock, however long a dump takes. */
        while (session->dump_ms <= now_ms)
            session->dump_ms += session->config->dump_interval_ms;
    }
    if (now_ms >= session->checkpoints.due_ms)
        session_checkpoint(session);
    if (now_ms >= session->end_ms && session->over == SESSION_GOES_ON)
        session->over = SESSION_OVER_DURATION;
    uint64_t next = discovery_retry(server, session, now_ms);
    if (session->sample_ms < next)
        next = session->sample_ms;
    if (session->dump_ms < next)
        next = session->dump_ms;
    if (session->checkpoints.due_ms < next)
        next = session->checkpoints.due_ms;
    return session->end_ms < next ? session->end_ms : next;
}

/* Do what is due. Return the time until something will be due in ms; -1: never. */
static int do_due(struct server *server)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (now_ms >= server->drain_ms)
        look(server, now_ms);
    uint64_t next = rendezvous_expire(&server->rendezvous, now_ms);
    for (size_t i = 0; i < server->session_count;) {
        struct session *session = server->sessions[i];
        uint64_t due = do_due_of(server, session, now_ms);
        if (session->over != SESSION_GOES_ON && server->user->session_over != NULL) {
            server->user->session_over(server->user->context, session);
            if (i < server->session_count && server->sessions[i] != session)
                continue;
        }
        if (due < next)
            next = due;
        i++;
    }
    if (server->drain_ms < next)
        next = server->drain_ms;
    if (server->wake_ms < next)
        next = server->wake_ms;
    if (attach_tidy() > 0 && next > now_ms + TIDY_PERIOD_MS)
        next = now_ms + TIDY_PERIOD_MS;
    if (next == UINT64_MAX)
        return -1;
    return next > now_ms ? (int)(next - now_ms) : 0;
}

void server_step(struct server *server)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(server->epoll, events, EVENTS_AT_ONCE, do_due(server));
    const struct server_user *user = server->user;
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        if (rendezvous_serve(&server->rendezvous, fd, answer_hello, server, user->request,
                             user->context) ||
            discovery_serve(server, fd) || handle_ended_process(server, fd) ||
            user->readable == NULL)
            continue;
        user->readable(user->context, fd);
    }
    rendezvous_begin_turn(&server->rendezvous, answer_hello, server, user->request, user->context);
}
