/*
 * See host.h: the event loop around one session.
 *
 * Ends when the command does: what it left running in the background is dumped
 * as it stands then. Signals to us are the command's (command_signals.h): it decides what they
 * mean, and we end when it ends.
 */
#include "daemon/host.h"

#include <errno.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/command_signals.h"
#include "daemon/launcher.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/session_requests.h"

struct host {
    const struct host_options *options;
    struct host_result *result;
    struct session session;
    struct server server;
    struct session_requests requests;
    int signals, command_pidfd;
    struct command_signals_before before;

    bool command_ended;
};

/* --- setting up --- */

static int start_command(struct host *host, struct error *error)
{
    struct launch launch = {
        .command = host->options->command,
        .library = host->options->preload_library,
        .socket = host->server.rendezvous.path,
        .signal_mask = host->before.mask,
        .child = host->before.child,
    };
    int code = 0;
    pid_t pid = launcher_start(&launch, &host->result->exec_errno, error);
    if (pid < 0)
        return pid;
    host->result->started = host->result->exec_errno == 0;
    if (!host->result->started)
        return 0;
    host->result->pid = pid;
    host->session.command_pid = pid;
    command_signals_pass_to(pid);
    host->command_pidfd = pidfd_open(pid, 0);
    if (host->command_pidfd < 0 || (code = server_watch(&host->server, host->command_pidfd)) < 0) {
        code = code < 0 ? code : -errno;
        return error_set(error, code, "cannot watch over %s: %s (Linux 5.3 or later is needed)",
                         host->options->command[0], strerror(-code));
    }
    return 0;
}

/* --- what happens --- */

static void handle_signals(struct host *host)
{
    unsigned asked = command_signals_take();
    if (asked & COMMAND_SIGNALS_DUMP)
        session_dump(&host->session);
}

static void tell_progress(void *context, struct session *session, uint64_t now_ms)
{
    struct host *host = context;
    if (host->options->progress == NULL)
        return;
    struct host_progress progress = {
        .elapsed_ms = now_ms - session->start_ms,
        .processes = session->profiled,
        .live_bytes = session_live_bytes(session),
        .samples = session_samples(session),
        .lost = session_lost(session),
        .rss_bytes = session->command_rss_bytes,
    };
    host->options->progress(host->options->progress_context, &progress);
}

static void handle_readable(void *context, int fd)
{
    struct host *host = context;
    if (fd == host->signals)
        handle_signals(host);
    else if (fd == host->command_pidfd)
        host->command_ended = true;
}

static void handle_request(void *context, int fd, const void *bytes, size_t length, int passed_fd)
{
    struct host *host = context;
    session_requests_serve(&host->requests, fd, bytes, length, passed_fd);
}

static void run_loop(struct host *host)
{
    while (!host->command_ended && host->session.over == SESSION_GOES_ON)
        server_step(&host->server);
}

/* --- the end --- */

/* How the command ended, leaving it a zombie that can still be looked at. */
static int peek_wait_status(pid_t pid)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0)
        return -1;
    switch (info.si_code) {
    case CLD_EXITED:
        return (info.si_status & 0xff) << 8;
    case CLD_DUMPED:
        return info.si_status | 0x80;
    default:
        return info.si_status;
    }
}

static void wait_for_command(struct host_result *result)
{
    command_signals_command_ended();
    if (waitpid(result->pid, &result->wait_status, 0) < 0)
        result->wait_status = -1;
}

static void end_session(struct host *host)
{
    struct host_result *result = host->result;
    struct session *session = &host->session;
    int status = -1;
    /* What has happened while we were busy: those who wait for an answer are told
     * by the closing socket that there will be none. */
    if (host->command_ended) {
        status = peek_wait_status(result->pid);
        session_process_ended(session, result->pid, status);
    }
    session_end_targets(session, result->interrupted);
    session_explain_command(session, host->options->command[0], host->options->preload_library,
                            status, !host->command_ended);
    if (host->command_ended)
        wait_for_command(result);
    result->profiled = session->profiled;
    result->unprofiled = (unsigned)(session->unprofiled.count + session->unprofiled.beyond);
    tell_progress(host, session, clock_read_ms(CLOCK_MONOTONIC));
}

static int check_options(const struct host_options *options, struct error *error)
{
    if (options->config->sampling_interval_bytes == 0)
        return error_set(error, -EINVAL,
                         "a sampling interval of 0 bytes means nothing: 1 takes every allocation");
    if (options->command == NULL || options->command[0] == NULL)
        return error_set(error, -EINVAL, "there is no command to run");
    return 0;
}

int host_run(const struct host_options *options, struct host_result *result, struct error *error)
{
    *result = (struct host_result){.wait_status = -1};
    int code = check_options(options, error);
    if (code < 0)
        return code;
    struct host host = {.options = options, .result = result, .signals = -1, .command_pidfd = -1};
    const struct server_user user = {
        .readable = handle_readable,
                                     .progress = tell_progress,
                                     .request = handle_request,
                                     .context = &host};
    code =
        session_open(&host.session, options->config, options->follow_children, options->trace_fd);
    if (code < 0)
        return error_set(error, code, "cannot begin the trace: %s", strerror(-code));

    code = server_open(&host.server, &user, NULL, -1, error);
    if (code == 0 && ((code = host.signals = command_signals_open(&host.before)) < 0 ||
                      (code = server_watch(&host.server, host.signals)) < 0))
        error_set(error, code, "cannot listen to signals: %s", strerror(-code));
    if (code == 0)
        code = server_add_session(&host.server, &host.session);
    host.session.id = (uint64_t)getpid();
    host.session.owner = access_self();
    if (code == 0)
        code = start_command(&host, error);
    if (code == 0 && result->started) {
        session_requests_open(&host.requests, &host.server);
        run_loop(&host);
        end_session(&host);
    }
    server_close(&host.server);
    if (host.command_pidfd >= 0)
        close(host.command_pidfd);
    /* A command that goes on has its signals passed on until host_wait. */
    if (!result->started || result->wait_status != -1)
        command_signals_close();
    int closed = session_close(&host.session);
    session_requests_close(&host.requests);
    if (code == 0 && closed < 0)
        code = error_set(error, closed, "cannot write the trace: %s", strerror(-closed));
    return code;
}

void host_wait(struct host_result *result)
{
    siginfo_t info;
    if (!result->started || result->wait_status != -1)
        return;
    while (waitid(P_PID, (id_t)result->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    wait_for_command(result);
    command_signals_close();
}
