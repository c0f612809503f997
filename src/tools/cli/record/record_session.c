/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session that records running processes: prints its progress, then finishes its trace. */
#include "tools/cli/record/record_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/host/session_requests.h"
#include "recorder/server/session_manager.h"
#include "recorder/sockets/daemon_client.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/end_signals.h"
#include "tools/cli/record/fetch_symbols.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "trace/config/trace_config.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/output_file.h"

/* Runs a session on running processes until it ends: in the daemon if one runs, else in this
 * process. */

struct session_progress {
    uint64_t elapsed_ms;
    unsigned processes; /* being profiled */
    double live_bytes;
    uint64_t samples, lost;
};

struct session_run_options {
    const struct heap_config *config;
    bool follow_children;
    int trace_fd;
    /* Called a few times a second. NULL: not wanted. */
    void (*progress)(const struct session_progress *progress);
    /* Called once, when the session is set up; `in_daemon`: in a running daemon. NULL: not
     * wanted. */
    void (*started)(bool in_daemon);
    /* Called once, before the last dumps are written. NULL: not wanted. */
    void (*ending)(void);
    /* Called for each wanted process that gets no profile, as soon as that is known. */
    void (*refused)(int32_t pid, const char *name, const char *reason);
};

struct session_run_result {
    unsigned profiled; /* processes that have a profile */
    unsigned absent;   /* wanted processes without a profile; the trace has the reasons */
    bool hit_guardrail;
    bool daemon_ended;    /* the daemon was asked to end */
    bool processes_ended; /* only running processes were wanted, and all of them have ended */
};

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

/* Run until the duration has passed; until SIGINT, SIGTERM or SIGHUP; until somebody stops the
 * session; or, if only running processes were wanted, until all of them have ended. Return 0, or a
 * negative errno with a message. */
static int session_run(const struct session_run_options *options, struct session_run_result *result,
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

/* Limit of refused processes that are printed individually. */
#define REFUSED_LINES_MAX 20
/* Limit of processes whose debug files are fetched: the user waits. */
#define FETCHES_MAX 4

static bool quiet, by_number, shows_progress;
static uint32_t duration_ms; /* 0: no limit */
static struct live_view page;
static unsigned refused;
static const char *line_start = ""; /* erases the progress line */

static void tell_started(bool in_daemon)
{
    char duration[64] = "";
    if (quiet)
        return;
    if (duration_ms > 0)
        snprintf(duration, sizeof(duration), duration_ms % 1000 == 0 ? " for %u s" : " for %u ms",
                 duration_ms % 1000 == 0 ? duration_ms / 1000 : duration_ms);
    format_printf(stderr, "Profiling%s%s; Ctrl-C ends it%s and writes the profile.\n",
                  in_daemon ? " through the running heapprofd" : "", duration,
                  duration_ms > 0 ? " earlier" : "");
}

/* Print why a process is not profiled. For one named by pid that is an error; a name may match any
 * number of processes. */
static void tell_refused(int32_t pid, const char *name, const char *reason)
{
    refused++;
    if (quiet && !by_number)
        return;
    if (refused > REFUSED_LINES_MAX + 1)
        return;
    fputs(line_start, stderr);
    if (refused > REFUSED_LINES_MAX) {
        fputs("heap_profile: more processes cannot be profiled: the report lists all\n", stderr);
        return;
    }
    /* Some reasons begin with the process, some of them with its name. */
    char subject[32];
    int length = snprintf(subject, sizeof(subject), "process %d", (int)pid);
    const char *rest = strncmp(reason, subject, (size_t)length) == 0 ? reason + length : NULL;
    if (rest != NULL && *rest != ' ' && *rest != ':')
        rest = NULL; /* a number that only begins with this pid */
    bool is_named = name[0] != 0 && (rest == NULL || strncmp(rest, " (", 2) != 0);
    format_printf(stderr, "heap_profile: %s%s%s%s%s%s\n", subject, is_named ? " (" : "",
                  is_named ? name : "", is_named ? ")" : "", rest == NULL ? ": " : "",
                  rest == NULL ? reason : rest);
}

/* Rewrite the progress line. Only for a terminal. */
static void show_progress(const struct session_progress *progress)
{
    if (!by_number && refused == 0 && progress->processes == 0 && progress->samples == 0) {
        fprintf(stderr, "\r\033[K%.1f s, waiting for a process to profile",
                (double)progress->elapsed_ms / 1000);
        return;
    }
    fprintf(stderr, "\r\033[K%.1f s, %u process%s, %s live, %llu samples, %llu lost",
            (double)progress->elapsed_ms / 1000, progress->processes,
            progress->processes == 1 ? "" : "es", format_bytes(progress->live_bytes).bytes,
            (unsigned long long)progress->samples, (unsigned long long)progress->lost);
}

static void record_session_follow(const struct session_progress *progress)
{
    if (shows_progress)
        show_progress(progress);
    live_view_follow(&page, progress->elapsed_ms, progress->processes);
}

static void tell_ending(void)
{
    fputs("\r\033[Kwriting the last dumps", stderr);
}

static int open_trace(const struct record_session *session, struct output *output,
                      struct error *error)
{
    if (session->trace_path == NULL) {
        int code = output_create(output, session->output, error);
        return code < 0 ? code : output_open_trace(output, error);
    }
    struct output_file file;
    int code = output_file_open(&file, session->trace_path, OUTPUT_FILE_AT_ONCE, error);
    return code < 0 ? code : file.fd;
}

static void tell_end(const struct session_run_result *result)
{
    if (result->daemon_ended)
        fputs("heap_profile: the daemon ended, and the session with it\n", stderr);
    if (result->hit_guardrail)
        fputs("heap_profile: a guardrail of the configuration ended the session\n", stderr);
    if (result->profiled == 0 && result->absent == 0)
        fputs("heap_profile: no process was profiled: no process with such a name ran (a name "
              "is that of the program's file, or the name that the process gave itself)\n",
              stderr);
    else if (result->profiled == 0)
        fputs("heap_profile: no process was profiled; heap_profile doctor -p PID shows what "
              "would work\n",
              stderr);
}

/* Write the files that belong to the trace; without a trace discard the directory. Return 0, or a
 * negative errno after an error message. */
static int record_session_finish(const struct record_session *session, const struct output *output,
                                 const struct session_run_result *result, bool wrote)
{
    struct error error = {0};
    int code = 0;
    if (session->trace_path == NULL && wrote) {
        if (result->profiled > 0) /* else the link stays on the latest profile with data */
            output_publish(output);
        code = finish_profile(output, &session->finish, &error);
        if (code < 0)
            verb_fail(&error);
    } else if (session->trace_path == NULL) {
        output_discard(output);
    } else if (wrote) {
        if (result->profiled > 0)
            output_publish_trace(session->trace_path);
        if (quiet)
            return code;
        format_printf(stderr, "Trace in %s\n", session->trace_path);
        format_printf(stderr, "  %s report %s   prints a report\n", program_invocation_name,
                      session->trace_path);
    }
    return code;
}

static int run(const struct record_session *session)
{
    struct error error = {0};
    struct output output = {.is_own = false};
    int trace_fd = finish_profile_check(&session->finish, &error);
    if (trace_fd == 0)
        trace_fd = open_trace(session, &output, &error);
    if (trace_fd < 0) {
        verb_fail(&error);
        return RECORD_SESSION_FAILED;
    }
    quiet = session->finish.quiet;
    duration_ms = session->config->duration_ms;
    by_number = session->config->pid_count > 0;
    shows_progress = !quiet && isatty(STDERR_FILENO);
    line_start = shows_progress ? "\r\033[K" : "";
    struct session_run_options options = {
        .config = session->config,
        .follow_children = session->follow_children,
        .trace_fd = trace_fd,
        .progress = shows_progress || session->view ? record_session_follow : NULL,
        .ending = shows_progress ? tell_ending : NULL,
        .started = tell_started,
        .refused = tell_refused,
    };
    struct session_run_result result = {0};
    int code = 0;
    for (size_t i = 0; i < session->config->pid_count && i < FETCHES_MAX; i++)
        fetch_symbols_of_process((pid_t)session->config->pids[i], quiet);
    if (session->view)
        code = live_view_start(&page, output.directory, session->config, &error);
    if (code == 0 && session->beside != NULL)
        code = tracing_beside_start(session->beside, quiet, &error);
    if (code == 0)
        code = session_run(&options, &result, &error);
    bool wrote = lseek(trace_fd, 0, SEEK_END) > 0;
    close(trace_fd);
    if (shows_progress)
        fputs("\r\033[K", stderr);
    if (code < 0)
        verb_fail(&error);
    if (wrote && session->beside != NULL)
        tracing_beside_finish(session->beside,
                              session->trace_path != NULL ? session->trace_path : output.trace);
    /* The reason is printed already. */
    if (code == 0 && result.processes_ended && result.profiled == 0 && by_number) {
        if (session->trace_path == NULL && output.is_own)
            output_discard(&output);
        return RECORD_SESSION_FAILED;
    }
    int finished = record_session_finish(session, &output, &result, wrote);
    code = code < 0 ? code : finished;
    if (code < 0)
        return RECORD_SESSION_FAILED;
    tell_end(&result);
    return result.profiled > 0 ? RECORD_SESSION_DONE : RECORD_SESSION_EMPTY;
}

int record_session_run(const struct record_session *session)
{
    int code = run(session);
    if (code == RECORD_SESSION_DONE)
        live_view_stay(&page);
    live_view_end(&page);
    return code;
}
