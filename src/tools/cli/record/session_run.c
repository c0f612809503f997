/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session in the daemon or in this process, until signals, its end or its configuration end
 * it. */
#include "tools/cli/record/session_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/host/session_requests.h"
#include "recorder/server/session_manager.h"
#include "recorder/sockets/daemon_client.h"
#include "tools/cli/record/end_signals.h"
#include "tools/cli/record/session_list.h"
#include "util/clock.h"

/* Silence before the first reply after which the user gets a notice. */
#define SILENCE_MS 3000

/* A daemon that is at its limit of connections for a user drops the oldest, which may be ours. */
#define TRIES_MAX 3
#define TRIES_PERIOD_MS 100

/* --- sessions in the daemon --- */

/* Handle one reply. Return whether it was the last. */
static bool take_reply(const Heapprofd__ControlReply *reply,
                       const struct session_run_options *options, struct session_run_result *result)
{
    const Heapprofd__ControlSession *from = reply->progress;
    if (from != NULL && options->progress != NULL) {
        struct session_progress progress = {
            .elapsed_ms = from->elapsed_ms,
            .processes = from->process_count,
            .live_bytes = from->live_bytes,
            .samples = from->samples,
            .lost = from->lost,
        };
        options->progress(&progress);
    }
    if (reply->refused != NULL && options->refused != NULL)
        options->refused(reply->refused->pid,
                         reply->refused->name != NULL ? reply->refused->name : "",
                         reply->refused->reason != NULL ? reply->refused->reason : "");
    if (reply->end == NULL)
        return false;
    result->profiled = reply->end->profiled;
    result->absent = reply->end->absent;
    result->hit_guardrail = reply->end->reason == HEAPPROFD__CONTROL_REPLY__END__REASON__GUARDRAIL;
    result->processes_ended =
        reply->end->reason == HEAPPROFD__CONTROL_REPLY__END__REASON__PROCESSES_ENDED;
    result->daemon_ended = reply->end->reason == HEAPPROFD__CONTROL_REPLY__END__REASON__DAEMON_ENDS;
    return true;
}

/* Tell the user that the server of sessions does not answer, so that the wait is not a mystery. */
static void notice_silence(int fd)
{
    struct ucred listener = {0};
    socklen_t length = sizeof(listener);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &length);
    fprintf(stderr,
            "heap_profile: process %d, which serves sessions here, has not answered for %d s: it "
            "is busy or stopped; still waiting, Ctrl-C ends this\n",
            (int)listener.pid, SILENCE_MS / 1000);
}

/* Wait for a reply. Set *asked if a signal asks for the end meanwhile: a session that has not
 * started yet can be ended only after its start. */
static void wait_for_reply(int fd, int signals, bool *asked)
{
    struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    bool dump = false, is_there = false;
    int patience_ms = SILENCE_MS;
    while (!is_there) {
        int got = poll(polled, 2, patience_ms);
        if (got == 0) {
            notice_silence(fd);
            patience_ms = -1;
        }
        if (got <= 0)
            continue;
        is_there = polled[0].revents != 0;
        *asked |= polled[1].revents != 0 && end_signals_read(signals, &dump);
    }
}

/* Start the session. Return 0 with its number (0 if it has already ended), or a negative errno. */
static int start_remote(int fd, int signals, const struct session_run_options *options,
                        uint64_t *id, struct session_run_result *result, struct error *error)
{
    Heapprofd__ControlRequest__Start start = HEAPPROFD__CONTROL_REQUEST__START__INIT;
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    start.trace_config.data = heap_config_to_bytes(options->config, &start.trace_config.len);
    if (start.trace_config.data == NULL)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    start.has_trace_config = start.has_follow_children = start.has_progress = true;
    start.follow_children = options->follow_children;
    start.progress = options->progress != NULL;
    request.start = &start;
    int code = daemon_send(fd, &request, options->trace_fd, error);
    free(start.trace_config.data);
    if (code < 0)
        return code;
    /* Replies about processes that cannot be profiled precede the session's number. */
    *id = 0;
    bool asked = false;
    for (bool over = false; *id == 0 && !over;) {
        wait_for_reply(fd, signals, &asked);
        Heapprofd__ControlReply *reply = daemon_receive(fd, error);
        if (reply == NULL && asked)
            return error_set(error, -EINTR, "interrupted before the session began");
        if (reply == NULL)
            return error->code;
        over = take_reply(reply, options, result);
        *id = over ? 0 : reply->session_id;
        heapprofd__control_reply__free_unpacked(reply, NULL);
    }
    if (asked)
        shutdown(fd, SHUT_WR);
    return 0;
}

static int ask_for_dump(int fd, uint64_t id, struct error *error)
{
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    session.has_id = true;
    session.id = id;
    request.snapshot = &session;
    return daemon_send(fd, &request, -1, error);
}

static int run_remote(int fd, uint64_t id, int signals, const struct session_run_options *options,
                      struct session_run_result *result, struct error *error)
{
    int code = 0;
    if (options->started != NULL)
        options->started(true);
    struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    for (bool over = false; code == 0 && !over;) {
        if (poll(polled, 2, -1) < 0) {
            if (errno != EINTR)
                return error_set(error, -errno, "cannot wait for the daemon: %s", strerror(errno));
            continue;
        }
        bool dump = false, end = polled[1].revents != 0 && end_signals_read(signals, &dump);
        if (dump && !end)
            code = ask_for_dump(fd, id, error);
        if (end) {
            /* Closing our side asks the daemon for the end; its last reply announces it. */
            shutdown(fd, SHUT_WR);
            polled[1].fd = -1;
            if (options->ending != NULL)
                options->ending();
        }
        if (polled[0].revents == 0)
            continue;
        Heapprofd__ControlReply *reply = daemon_receive(fd, error);
        if (reply == NULL)
            return error->code;
        over = take_reply(reply, options, result);
        heapprofd__control_reply__free_unpacked(reply, NULL);
    }
    return code;
}

/* --- sessions in this process --- */

struct local {
    struct session_manager manager;
    struct session_requests requests;
    const struct session_run_options *options;
    int signals;
    bool over;
};

static void handle_readable(void *context, int fd)
{
    struct local *local = context;
    bool dump = false;
    if (fd != local->signals)
        return;
    local->over |= end_signals_read(fd, &dump);
    if (dump && local->manager.server.session != NULL)
        session_dump(local->manager.server.session);
}

static void handle_refused(void *context, struct session *session, const struct process_info *info,
                           const char *remark)
{
    const struct local *local = context;
    (void)session;
    if (local->options->refused != NULL)
        local->options->refused(info->pid, process_info_name(info), remark);
}

static void handle_request(void *context, int fd, const struct peer_message *message)
{
    struct local *local = context;
    session_requests_serve(&local->requests, fd, message);
}

static void handle_over(void *context, struct session *session)
{
    struct local *local = context;
    (void)session;
    local->over = true;
}

static void handle_progress(void *context, struct session *session, uint64_t now_ms)
{
    struct local *local = context;
    session_manager_invite(&local->manager);
    if (local->options->progress == NULL)
        return;
    struct session_progress progress = {
        .elapsed_ms = now_ms - session->start_ms,
        .processes = (unsigned)session->target_count,
        .live_bytes = session_live_bytes(session),
        .samples = session_samples(session),
        .lost = session_lost(session),
    };
    local->options->progress(&progress);
}

/* Listen at the daemon's place, so that preloaded processes find us. Without it, only processes
 * that can be attached to can be profiled. */
static int open_manager(struct local *local, const struct server_user *user, struct error *error)
{
    char path[RUN_DIRECTORY_PATH_MAX];
    if (run_directory_choose(path, error) == 0) {
        int code = session_manager_open(&local->manager, path, -1, user, error);
        if (code == 0 || code == -EINVAL)
            return code;
    }
    return session_manager_open(&local->manager, NULL, -1, user, error);
}

static int run_local(int signals, const struct session_run_options *options,
                     struct session_run_result *result, struct error *error)
{
    struct local local = {.options = options, .signals = signals};
    const struct server_user user = {.readable = handle_readable,
                                     .session_over = handle_over,
                                     .progress = handle_progress,
                                     .request = handle_request,
                                     .session = {.refused = handle_refused, .context = &local},
                                     .context = &local};
    struct heap_config config;
    struct access_requester self = access_self();
    session_list_warn();
    int code = open_manager(&local, &user, error);
    if (code < 0)
        return code;
    code = server_watch(&local.manager.server, signals);
    if (code < 0)
        error_set(error, code, "cannot listen to signals: %s", strerror(-code));
    if (code == 0 && (code = heap_config_copy(&config, options->config)) < 0)
        error_set(error, code, "no memory for the configuration");
    struct session *session = NULL;
    if (code == 0)
        session = session_manager_start(&local.manager, &config, options->follow_children, &self,
                                        SESSION_TRACE_FILE, options->trace_fd, error);
    if (session != NULL) {
        session->id = (uint64_t)getpid();
        session_requests_open(&local.requests, &local.manager.server);
        if (options->started != NULL && session->over == SESSION_GOES_ON)
            options->started(false);
        while (!local.over && session->over == SESSION_GOES_ON)
            server_step(&local.manager.server);
        if (options->ending != NULL)
            options->ending();
        struct session_manager_outcome outcome;
        result->hit_guardrail = session->over == SESSION_OVER_GUARDRAIL;
        result->processes_ended = session->over == SESSION_OVER_ENDED;
        code = session_manager_finish(&local.manager, &outcome);
        result->profiled = outcome.profiled;
        result->absent = outcome.not_profiled;
        if (code < 0)
            error_set(error, code, "cannot write the trace: %s", strerror(-code));
        session_requests_close(&local.requests);
    } else if (code == 0) {
        code = error->code;
    }
    session_manager_close(&local.manager);
    return code;
}

/* Return as session_run(); -ENOENT: no daemon runs; -ENOTCONN: it has ended the connection without
 * an answer, before a session began. */
static int run_in_daemon(int signals, const struct session_run_options *options,
                         struct session_run_result *result, struct error *error)
{
    uint64_t id = 0;
    int fd = daemon_connect(0, error);
    if (fd < 0)
        return fd;
    int code = start_remote(fd, signals, options, &id, result, error);
    if (code == 0 && id != 0)
        code = run_remote(fd, id, signals, options, result, error);
    else if (code == -EPIPE || code == -ECONNRESET)
        code = -ENOTCONN;
    close(fd);
    return code;
}

int session_run(const struct session_run_options *options, struct session_run_result *result,
                struct error *error)
{
    *result = (struct session_run_result){0};
    int signals = end_signals_take(true);
    if (signals < 0)
        return error_set(error, -errno, "cannot listen to signals: %s", strerror(errno));
    int code = run_in_daemon(signals, options, result, error);
    for (int tries = 1; code == -ENOTCONN && tries < TRIES_MAX; tries++) {
        poll(NULL, 0, TRIES_PERIOD_MS);
        code = run_in_daemon(signals, options, result, error);
    }
    if (code == -ENOTCONN)
        fputs("heap_profile: heapprofd ended the connection three times without an answer; "
              "profiling without it: programs that have the library preloaded cannot join\n",
              stderr);
    if (code == -ENOENT || code == -ENOTCONN)
        code = run_local(signals, options, result, error);
    end_signals_restore(!result->processes_ended);
    return code;
}
