/* SPDX-License-Identifier: Apache-2.0 */
/* Answer hellos, drain rings, and do what is due in the session. */
#include "recorder/server/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "recorder/attach/entry.h"
#include "recorder/processes/exec_events.h"
#include "recorder/server/target_discovery.h"
#include "util/clock.h"
#include "util/event_loop.h"

/* Period of the timelines' points, and of calls of `progress`. A session begins with shorter ones:
 * its command may end before the first. */
#define SAMPLE_PERIOD_MS 100
#define SAMPLE_PERIOD_MS_MIN 10
/* A session of a command lasts from when the command joins, which it may never do. */
#define COMMAND_JOIN_MS 10000
#define BACKGROUND_PERIOD_MS 1000

/* Rings are drained so often that each drain finds about a sixteenth of a ring, and at least this
 * often. At small intervals the longest delay is shorter: an idle program may suddenly write
 * hundreds of megabytes a second, and must not fill its ring before the next drain. If samples are
 * few, it is a sample period, so that both need one wake-up, which costs up to a millisecond. */
#define DRAIN_DELAY_MAX_MS 50
#define DRAIN_DELAY_MAX_BACKGROUND_MS 200
#define DRAIN_DELAY_MAX_DENSE_MS 5
#define DENSE_INTERVAL_BYTES 256
#define SPARSE_INTERVAL_BYTES (64 << 10)

#define EVENTS_AT_ONCE 64

/* Time from the answer to a process that is about to call exec until it does. Nothing else is done
 * meanwhile. */
#define EXEC_PATIENCE_MS 200

/* Threads that stop only after an attempt to attach has failed are released after this time. */
#define TIDY_PERIOD_MS 2

int server_watch(const struct server *server, int fd)
{
    return event_loop_watch(server->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
}

void server_unwatch(const struct server *server, int fd)
{
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, fd, NULL);
}

int server_open_without_socket(struct server *server, const struct server_user *user,
                               const char *socket_path, struct error *error)
{
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

void server_close(struct server *server)
{
    exec_events_close(server->exec_events);
    rendezvous_close(&server->rendezvous);
    if (server->epoll >= 0)
        close(server->epoll);
    server->epoll = server->exec_events = -1;
}

static uint64_t sample_period_ms(const struct session *session, uint64_t now_ms)
{
    uint64_t age_ms = now_ms - session->start_ms;
    if (session->config->background)
        return BACKGROUND_PERIOD_MS;
    if (age_ms < SAMPLE_PERIOD_MS_MIN)
        return SAMPLE_PERIOD_MS_MIN;
    return age_ms < SAMPLE_PERIOD_MS ? age_ms : SAMPLE_PERIOD_MS;
}

/* Return whether the samples of a period fill little of a ring. */
static bool has_few_samples(const struct session *session)
{
    const struct heap_config *config = session->config;
    /* A client that does not wait for space ends its profile. Some heaps may be dense, and scopes
     * are not sampled. */
    if (!config->block_client || config->block_client_timeout_us > 0 ||
        config->heap_sampling_interval_count > 0 || config->context_slices ||
        heap_config_wants_heap(config, HEAP_CONFIG_MMAP))
        return false;
    return heap_config_first_interval(config) >= SPARSE_INTERVAL_BYTES;
}

static uint64_t longest_drain_delay(const struct session *session)
{
    if (session->config->background)
        return DRAIN_DELAY_MAX_BACKGROUND_MS;
    if (session->config->sampling_interval_bytes <= DENSE_INTERVAL_BYTES)
        return DRAIN_DELAY_MAX_DENSE_MS;
    return has_few_samples(session) ? SAMPLE_PERIOD_MS : DRAIN_DELAY_MAX_MS;
}

void server_begin_session(struct server *server, struct session *session)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    const struct heap_config *config = session->config;
    session->start_ms = now_ms;
    session->sample_ms = now_ms + sample_period_ms(session, now_ms);
    session->end_ms = config->duration_ms > 0 ? now_ms + config->duration_ms : UINT64_MAX;
    if (session->of_command && config->duration_ms > 0)
        session->end_ms += COMMAND_JOIN_MS;
    session->dump_ms = UINT64_MAX;
    if (config->dump_interval_ms > 0)
        session->dump_ms =
            now_ms + (config->dump_phase_ms > 0 ? config->dump_phase_ms : config->dump_interval_ms);
    /* No checkpoints: a stream of events goes on while a dump is written, and would be withdrawn
     * with it. */
    if (config->stream_allocations || config->context_slices)
        session->checkpoints.due_ms = UINT64_MAX;
    else
        checkpoints_start(&session->checkpoints, now_ms);
    session->user = &server->user->session;
    server->session = session;
    attach_serve_meanwhile(session_serve_meanwhile, session);
    if (session->cgroups.epoll >= 0)
        server_watch(server, session->cgroups.epoll);
    server->drain_ms = now_ms;
    server->drain_delay_ms = 1;
    server->longest_drain_delay_ms = longest_drain_delay(session);
}

void server_remove_session(struct server *server)
{
    server->session = NULL;
    discovery_listen(server);
}

/* --- hellos --- */

void server_drain_soon(struct server *server)
{
    server->drain_delay_ms = 1;
    server->drain_ms = clock_read_ms(CLOCK_MONOTONIC) + 1;
}

/* Trace a process that is about to become a static program. */
static int answer_before_exec(struct server *server, int fd, pid_t pid, uid_t uid,
                              struct handshake_reply *reply)
{
    struct process_info info;
    struct error error;
    *reply = (struct handshake_reply){
        .magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION, .verdict = HANDSHAKE_NOT_A_TARGET};
    if (server->session == NULL || server->entering != 0 || process_info_read(&info, pid) < 0)
        return 0;
    if (access_peer_lives(fd) && session_may_enter(server->session, &info, uid) &&
        entry_watch(pid, &error) == 0)
        server->entering = pid;
    process_info_clear(&info);
    return 0;
}

/* Attach to the process at the first instruction of its new program. If that fails, it is attached
 * to later, as other programs of its kind. */
static void enter(struct server *server)
{
    struct error error;
    int pidfd;
    pid_t pid = server->entering;
    server->entering = 0;
    if (entry_hold(pid, EXEC_PATIENCE_MS) < 0)
        return;
    if (server->session == NULL || session_enter(server->session, pid, &pidfd, &error) < 0) {
        entry_release(pid);
        return;
    }
    server_drain_soon(server);
    if (pid != server->session->command_pid)
        server_watch(server, pidfd);
}

/* Return whether the peer has closed its side, since it waits no longer, and its program has a
 * profile: an answer would replace what a later hello began. Without a profile the answer makes one
 * that says why it is empty, and the process is invited again. */
static bool is_outdated(const struct session *session, int fd, pid_t pid)
{
    struct pollfd polled = {.fd = fd};
    bool has_left = poll(&polled, 1, 0) == 1 && (polled.revents & POLLHUP) != 0;
    const struct target *target = has_left && session != NULL ? session_find(session, pid) : NULL;
    return target != NULL && target->exec != TARGET_EXEC_AWAY && !target_has_exec(target);
}

static int answer_hello(void *context, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply,
                        int *memfd)
{
    struct server *server = context;
    struct session *session = server->session;
    struct process_info info;
    if (handshake_is_before_exec(hello) && pid > 0)
        return answer_before_exec(server, fd, pid, uid, reply);
    int code = handshake_hello_is_sound(hello) && pid > 0 ? process_info_read(&info, pid) : -EPROTO;
    if (code < 0)
        return code;
    *reply = (struct handshake_reply){
        .magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION, .verdict = HANDSHAKE_NOT_A_TARGET};
    /* It may have passed its connection on and ended. Its pid may be another process's then. */
    if (!access_peer_lives(fd) || is_outdated(session, fd, pid))
        code = -ESRCH;
    else if (session != NULL)
        code = session_hello(session, &info, uid, hello, reply, memfd);
    if (code > 0) {
        server_drain_soon(server);
        /* The caller who started a command also waits for its end. */
        if (pid != session->command_pid)
            server_watch(server, session_find(session, pid)->pidfd);
    }
    if (code != 1)
        process_info_clear(&info);
    /* A process that was attached to gets no ring. */
    return code == 2 ? 0 : code;
}

static void pass_request_on(void *context, int fd, const struct peer_message *message)
{
    const struct server_user *user = ((struct server *)context)->user;
    user->request(user->context, fd, message);
}

int server_open(struct server *server, const struct server_user *user, const char *directory,
                int listener, struct error *error)
{
    int code = server_open_without_socket(server, user, server->rendezvous.path, error);
    if (code < 0)
        return code;
    server->rendezvous.user = (struct rendezvous_user){answer_hello, pass_request_on, server};
    return rendezvous_open(&server->rendezvous, server->epoll, directory, listener, error);
}

int server_take_hello(struct server *server, int fd, pid_t pid, uid_t uid,
                      const struct handshake_hello *hello)
{
    struct handshake_reply reply;
    int memfd = -1;
    int verdict = answer_hello(server, fd, pid, uid, hello, &reply, &memfd);
    /* If it was attached to instead, its preloaded library stays dormant. */
    bool is_taken = verdict == 1 || (verdict == 0 && server->session != NULL &&
                                     session_profiles(server->session, pid));
    if (is_taken)
        rendezvous_reply(fd, &reply, memfd);
    if (memfd >= 0)
        close(memfd);
    return is_taken ? 1 : verdict;
}

/* Return whether a cgroup of the session may have come near its limit, after a look at it. */
static bool check_cgroups(struct server *server, int fd)
{
    if (server->session == NULL || fd != server->session->cgroups.epoll)
        return false;
    session_check_cgroups(server->session);
    return true;
}

static bool handle_ended_process(struct server *server, int pidfd)
{
    struct session *session = server->session;
    for (size_t i = 0; session != NULL && i < session->target_count; i++) {
        const struct target *target = session->targets[i];
        if (target->pidfd != pidfd)
            continue;
        /* An event of a closed pidfd may still come, and its number belong to another one. */
        if (target_is_dead(target) && server->exec_events >= 0)
            discovery_serve(server, server->exec_events);
        if (target_is_dead(target) && server->user->read_events != NULL)
            server->user->read_events(server->user->context);
        if (target_is_dead(target))
            session_process_ended(session, target->info.pid, -1);
        return true;
    }
    return false;
}

/* --- due work --- */

/* Drain the rings, and choose the time of the next drain by what this one found. */
static void drain(struct server *server, uint64_t now_ms)
{
    struct session *session = server->session;
    uint64_t longest = server->longest_drain_delay_ms;
    uint64_t delay = server->drain_delay_ms, wanted = session->ring_bytes / 16;
    uint64_t fullest = session_poll(session);
    if (delay == 0)
        delay = 1;
    if (fullest > 2 * wanted)
        delay = 0;
    else if (fullest > wanted)
        delay = delay * wanted / fullest;
    else if (fullest < wanted / 2 && now_ms >= server->drain_ms)
        delay *= 2; /* a drain that came early finds less */
    server->drain_delay_ms = delay < longest ? delay : longest;
    server->drain_ms = now_ms + server->drain_delay_ms;
}

/* Do what is due in the session. Return when something will be due again. */
static uint64_t do_due_of(struct server *server, struct session *session, uint64_t now_ms)
{
    const struct server_user *user = server->user;
    bool is_sample_due = now_ms >= session->sample_ms;
    /* A sample takes a drain along, so that both need one wake-up from then on. */
    if (is_sample_due || now_ms >= server->drain_ms)
        drain(server, now_ms);
    if (is_sample_due) {
        if (session->of_command)
            session_handle_execs(session, NULL, NULL);
        else
            discovery_follow_execs(server);
        session_sample_memory(session);
        session_check_cgroups(session);
        session_check_guardrails(session);
        if (!session->of_command) {
            discovery_new(server);
            if (session->over == SESSION_GOES_ON && discovery_is_done(session))
                session->over = SESSION_OVER_ENDED;
        }
        if (user->progress != NULL)
            user->progress(user->context, session, now_ms);
        session->sample_ms = now_ms + sample_period_ms(session, now_ms);
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
    uint64_t next = discovery_retry(server, now_ms);
    next = clock_earlier(next, server->drain_ms);
    next = clock_earlier(next, session->sample_ms);
    next = clock_earlier(next, session->dump_ms);
    next = clock_earlier(next, session->checkpoints.due_ms);
    next = clock_earlier(next, session->end_ms);
    if (session->over != SESSION_GOES_ON && user->session_over != NULL)
        user->session_over(user->context, session);
    return next;
}

/* Do what is due. Return the time until something will be due in ms; -1: never. */
static int do_due(struct server *server)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    uint64_t next = clock_earlier(rendezvous_expire(&server->rendezvous, now_ms), server->wake_ms);
    if (server->session != NULL)
        next = clock_earlier(next, do_due_of(server, server->session, now_ms));
    if (attach_tidy() > 0)
        next = clock_earlier(next, now_ms + TIDY_PERIOD_MS);
    return event_loop_timeout(now_ms, next);
}

static void serve(struct server *server, int fd)
{
    const struct server_user *user = server->user;
    if (!rendezvous_serve(&server->rendezvous, fd) && !discovery_serve(server, fd) &&
        !check_cgroups(server, fd) && !handle_ended_process(server, fd) && user->readable != NULL)
        user->readable(user->context, fd);
}

void server_step(struct server *server)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(server->epoll, events, EVENTS_AT_ONCE, do_due(server));
    for (int i = 0; i < count; i++) {
        serve(server, events[i].data.fd);
        if (server->entering != 0)
            enter(server);
    }
    /* Hellos are answered here, too. */
    rendezvous_begin_turn(&server->rendezvous);
    if (server->entering != 0)
        enter(server);
}
