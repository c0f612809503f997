/*
 * See host.h: the event loop around one session.
 *
 * Ends when the command does: what it left running in the background is dumped
 * as it stands then. Ctrl-C on a terminal goes to the command as well as to us,
 * and the command decides what it means; we end when it ends. A second one, or any
 * other signal to us that asks for an end, ends the session alone.
 */
#include "daemon/host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/launcher.h"
#include "daemon/server.h"
#include "daemon/session.h"

/* After a signal that the command probably got too: this long it may take to end. */
#define GRACE_MS 1000

struct host {
    const struct host_options *options;
    struct host_result *result;
    struct session session;
    struct server server;
    int signals, command_pidfd;
    sigset_t mask_before;
    struct sigaction child_before;

    bool interrupted_once, ended, command_ended;
};

/* --- setting up --- */

static void take_signals(struct host *host)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGQUIT);
    sigaddset(&ours, SIGHUP);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &host->mask_before);
    host->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    /* Ignored, it would have the kernel throw away how the command ended. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &standard, &host->child_before);
}

static void give_signals_back(struct host *host)
{
    /* What has come in meanwhile was meant for the session. */
    struct signalfd_siginfo info;
    while (host->signals >= 0 && read(host->signals, &info, sizeof(info)) > 0)
        ;
    sigaction(SIGCHLD, &host->child_before, NULL);
    sigprocmask(SIG_SETMASK, &host->mask_before, NULL);
    if (host->signals >= 0)
        close(host->signals);
}

static int start_command(struct host *host, struct error *error)
{
    struct launch launch = {
        .command = host->options->command,
        .library = host->options->preload_library,
        .socket = host->server.rendezvous.path,
        .signal_mask = host->mask_before,
        .child = host->child_before,
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
    struct signalfd_siginfo info;
    while (read(host->signals, &info, sizeof(info)) == sizeof(info)) {
        bool from_terminal = info.ssi_code == SI_KERNEL;
        bool once_more = host->interrupted_once;
        host->interrupted_once = true;
        if (info.ssi_signo == SIGTERM || once_more) {
            host->result->interrupted = true;
            host->ended = true;
        } else if (!from_terminal || info.ssi_signo == SIGHUP) {
            /* Perhaps sent to our whole group: if the command ends of it, that is
             * the better end. */
            host->server.wake_ms = clock_read_ms(CLOCK_MONOTONIC) + GRACE_MS;
        }
    }
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

static void run_loop(struct host *host)
{
    while (!host->ended && !host->command_ended && host->session.over == SESSION_GOES_ON) {
        server_step(&host->server);
        if (clock_read_ms(CLOCK_MONOTONIC) >= host->server.wake_ms) {
            host->result->interrupted = true;
            host->ended = true;
        }
    }
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
    if (host->command_ended && waitpid(result->pid, &result->wait_status, 0) < 0)
        result->wait_status = -1;
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
        .readable = handle_readable, .progress = tell_progress, .context = &host};
    code =
        session_open(&host.session, options->config, options->follow_children, options->trace_fd);
    if (code < 0)
        return error_set(error, code, "cannot begin the trace: %s", strerror(-code));

    take_signals(&host);
    code = server_open(&host.server, &user, NULL, -1, error);
    if (code == 0 && (code = server_watch(&host.server, host.signals)) < 0)
        error_set(error, code, "cannot listen to signals: %s", strerror(-code));
    if (code == 0)
        code = server_add_session(&host.server, &host.session);
    if (code == 0)
        code = start_command(&host, error);
    if (code == 0 && result->started) {
        run_loop(&host);
        end_session(&host);
    }
    server_close(&host.server);
    if (host.command_pidfd >= 0)
        close(host.command_pidfd);
    give_signals_back(&host);
    int closed = session_close(&host.session);
    if (code == 0 && closed < 0)
        code = error_set(error, closed, "cannot write the trace: %s", strerror(-closed));
    return code;
}
