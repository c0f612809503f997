/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop around one session.
 *
 * The command gets the signals that we receive (command_signals.h), and decides what they mean. We
 * end when the command and all profiled processes that it started have ended: a server may leave
 * the work to a child in the background.
 */
#include "recorder/host/host.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/attach/entry.h"
#include "recorder/host/command_signals.h"
#include "recorder/host/launcher.h"
#include "recorder/host/session_requests.h"
#include "recorder/processes/access.h"
#include "recorder/processes/program.h"
#include "recorder/processes/self_read.h"
#include "recorder/reader/file_reader.h"
#include "recorder/server/descendants.h"
#include "recorder/server/server.h"
#include "recorder/session/session.h"
#include "util/clock.h"
#include "util/kernel_calls.h"
#include "util/process_files.h"

/* Time that a child has to say hello after the last profiled process has ended. A child says hello
 * at its first allocation. */
#define NEWCOMER_PATIENCE_MS 500
#define NEWCOMER_CHECK_MS 50

struct host {
    const struct host_options *options;
    struct host_result *result;
    struct session session;
    struct access_policy policy;
    struct server server;
    struct session_requests requests;
    struct descendants descendants;
    int signals, command_pidfd;
    struct command_signals_before before;
    char program[PATH_MAX]; /* of the command; of a script, its interpreter. "": not found */

    bool command_ended; /* it is a zombie; we have not waited for it yet */
    bool command_gone;  /* we have waited for it */
    bool asked_to_end, reported_outlived;
    int command_status;    /* from waitpid; -1: unknown */
    long rss_at_start_kb;  /* the most that we had until its exec */
    uint64_t alone_ms;     /* since when no process is profiled; 0: one is */
    uint64_t newcomers_ms; /* time of the next check for new ones */
};

/* --- setting up --- */

/* Decide how to start the command. If the library cannot be loaded into it, it is attached to at
 * its first instruction, if that is possible. A program for another machine runs without the
 * library, about which its loader would complain, and not as a script if the kernel does not run
 * it. */
static void choose_start(struct host *host, struct launch *launch, char path[PATH_MAX])
{
    const struct host_options *options = host->options;
    bool follows = options->follow_children || options->config->process_cmdline != NULL;
    program_find_of_command(options->command, path, PATH_MAX);
    snprintf(host->program, sizeof(host->program), "%s", path);
    launch->holds = path[0] != 0 && program_is_enterable(path);
    bool is_foreign = path[0] != 0 && program_is_foreign(path);
    if (is_foreign && !follows)
        launch->library = NULL;
    program_locate(options->command[0], path, PATH_MAX);
    if (is_foreign && program_is_foreign(path))
        launch->program = path;
}

/* Attach to the command, which is held at its first instruction, and let it go on. */
static void enter_command(struct host *host, pid_t pid)
{
    int pidfd; /* the command has a pidfd already */
    struct error *failure = &host->session.entry_failure;
    if (failure->code == 0 && session_enter(&host->session, pid, &pidfd, failure) == 0)
        server_drain_soon(&host->server);
    else
        entry_release(pid);
}

static int start_command(struct host *host, struct error *error)
{
    sigset_t missed;
    char path[PATH_MAX];
    struct launch launch = {
        .command = host->options->command,
        .library = host->options->preload_library,
        .socket = host->server.rendezvous.path,
        .signal_mask = host->before.mask,
        .child = host->before.child,
        .missed = &missed,
    };
    int code = 0;
    descendants_open(&host->descendants, &host->server, launch.library, launch.socket);
    choose_start(host, &launch, path);
    descendants_watch(&host->descendants);
    self_read_try();
    pid_t pid =
        launcher_start(&launch, &host->result->exec_errno, &host->session.entry_failure, error);
    if (pid < 0)
        return pid;
    host->result->started = host->result->exec_errno == 0;
    if (!host->result->started)
        return 0;
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    host->rss_at_start_kb = own.ru_maxrss;
    host->result->pid = pid;
    host->session.command_pid = pid;
    command_signals_pass_to(pid, &missed);
    descendants_begin(&host->descendants, pid);
    if (launch.holds)
        enter_command(host, pid);
    host->command_pidfd = kernel_pidfd_open(pid, 0);
    if (host->command_pidfd < 0 || (code = server_watch(&host->server, host->command_pidfd)) < 0) {
        code = code < 0 ? code : -errno;
        return error_set(error, code, "cannot watch %s: %s (Linux 5.3 or later is needed)",
                         host->options->command[0], strerror(-code));
    }
    return 0;
}

/* --- events --- */

static void handle_signals(struct host *host)
{
    unsigned asked = command_signals_take();
    if (asked & COMMAND_SIGNALS_DUMP)
        session_dump(&host->session);
    host->asked_to_end |= (asked & COMMAND_SIGNALS_END) != 0;
}

static void call_progress(struct host *host, uint64_t now_ms, size_t ending)
{
    const struct session *session = &host->session;
    if (host->options->progress == NULL)
        return;
    struct host_progress progress = {
        .elapsed_ms = now_ms - session->start_ms,
        .processes = session->profiled,
        .live_bytes = session_live_bytes(session),
        .samples = session_samples(session),
        .lost = session_lost(session),
        .ending = (unsigned)ending,
    };
    host->options->progress(host->options->progress_context, &progress);
}

static void report_progress(void *context, struct session *session, uint64_t now_ms)
{
    struct host *host = context;
    (void)session;
    descendants_tick(&host->descendants);
    call_progress(host, now_ms, 0);
}

static void report_ending(void *context, size_t left)
{
    call_progress(context, clock_read_ms(CLOCK_MONOTONIC), left);
}

static bool descends(void *context, pid_t pid)
{
    struct host *host = context;
    return descendants_include(&host->descendants, pid);
}

static void read_events(void *context)
{
    struct host *host = context;
    if (host->descendants.events >= 0)
        descendants_read(&host->descendants);
}

static void handle_readable(void *context, int fd)
{
    struct host *host = context;
    if (fd == host->signals)
        handle_signals(host);
    else if (fd == host->command_pidfd)
        host->command_ended = true;
    else if (descendants_watches(&host->descendants, fd))
        descendants_read(&host->descendants);
}

static void handle_request(void *context, int fd, const struct peer_message *message)
{
    struct host *host = context;
    session_requests_serve(&host->requests, fd, message);
}

/* --- the command's end --- */

/* Return how the command ended, and what it used. It stays a zombie, so that it can still be
 * examined. The C library's waitid() does not pass the kernel's last argument on. */
static int peek_wait_status(pid_t pid, struct rusage *usage)
{
    siginfo_t info = {0};
    if (syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOWAIT, usage) < 0)
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

/* --- after the command's end --- */

static bool is_listed(const struct unprofiled_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->records[i].pid == pid && list->records[i].reason != UNPROFILED_QUIET)
            return true;
    }
    return false;
}

/* Return whether a process runs that inherited our socket's path and has not used it yet. */
static bool has_newcomer(const struct host *host)
{
    DIR *directory = opendir("/proc");
    bool found = false;
    pid_t pid;
    while (directory != NULL && !found && (pid = process_list_next(directory)) > 0) {
        found = process_info_file_contains(pid, "environ", host->server.rendezvous.path) &&
                session_find(&host->session, pid) == NULL &&
                !is_listed(&host->session.unprofiled, pid);
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Return whether, after the command's end, a process is still profiled or may be soon. */
static bool is_followed(struct host *host)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    bool follows = host->options->follow_children || host->options->config->process_cmdline != NULL;
    if (!follows || host->options->end_with_command)
        return false;
    if (host->session.target_count > 0) {
        host->alone_ms = host->newcomers_ms = 0;
        host->server.wake_ms = UINT64_MAX;
        if (host->options->outlived != NULL && !host->reported_outlived)
            host->options->outlived((unsigned)host->session.target_count);
        host->reported_outlived = true;
        return true;
    }
    if (host->alone_ms == 0)
        host->alone_ms = now_ms;
    if (now_ms >= host->newcomers_ms) {
        if (now_ms >= host->alone_ms + NEWCOMER_PATIENCE_MS || !has_newcomer(host))
            return false;
        host->newcomers_ms = now_ms + NEWCOMER_CHECK_MS;
        host->server.wake_ms = host->newcomers_ms;
    }
    return true;
}

static bool goes_on(struct host *host)
{
    if (host->session.over != SESSION_GOES_ON || host->asked_to_end)
        return false;
    return !host->command_gone || is_followed(host);
}

static void handle_command_end(struct host *host)
{
    struct host_result *result = host->result;
    host->command_ended = false;
    host->command_gone = true;
    struct rusage usage = {0};
    host->command_status = peek_wait_status(result->pid, &usage);
    descendants_command_ended(&host->descendants);
    /* Until its exec it was a copy of us. */
    if (usage.ru_maxrss > host->rss_at_start_kb)
        session_note_most_rss(&host->session, result->pid, (uint64_t)usage.ru_maxrss * 1024);
    session_process_ended(&host->session, result->pid, host->command_status);
    wait_for_command(result);
    close(host->command_pidfd);
    host->command_pidfd = -1;
}

static void run_loop(struct host *host)
{
    while (goes_on(host)) {
        server_step(&host->server);
        if (host->command_ended)
            handle_command_end(host);
    }
}

/* --- the end --- */

static void end_session(struct host *host)
{
    struct host_result *result = host->result;
    struct session *session = &host->session;
    descendants_read_rest(&host->descendants);
    /* A request for the end may have come while we were busy. */
    result->interrupted = host->asked_to_end;
    session_end_targets(session, result->interrupted);
    descendants_finish(&host->descendants);
    session_explain_command(session, host->options->command, host->options->preload_library,
                            host->command_status, !host->command_gone);
    result->profiled = session->profiled;
    result->unprofiled = (unsigned)unprofiled_count(&session->unprofiled);
    call_progress(host, clock_read_ms(CLOCK_MONOTONIC), 0);
}

static int check_options(const struct host_options *options, struct error *error)
{
    if (options->config->sampling_interval_bytes == 0)
        return error_set(error, -EINVAL,
                         "the sampling interval cannot be 0 bytes: 1 samples every allocation");
    if (options->command == NULL || options->command[0] == NULL)
        return error_set(error, -EINVAL, "there is no command to run");
    return 0;
}

/* Read the policy. A command that nobody may profile does not run: the user asked for its profile.
 */
static int check_policy(struct host *host, struct error *error)
{
    const char *command = host->options->command[0];
    char file[PATH_MAX], interpreter[PATH_MAX];
    int code = access_policy_read(&host->policy, ACCESS_POLICY_PATH, error);
    if (code < 0 || host->policy.count == 0)
        return code;
    program_locate(command, file, sizeof(file));
    program_find(command, interpreter, sizeof(interpreter));
    if (!access_policy_denies_command(&host->policy, command, file) &&
        !access_policy_denies_command(&host->policy, command, interpreter))
        return 0;
    access_policy_clear(&host->policy);
    return error_set(error, -EPERM, "%s may not be profiled: never_profile in %s denies it",
                     command, ACCESS_POLICY_PATH);
}

int host_run(const struct host_options *options, struct host_result *result, struct error *error)
{
    *result = (struct host_result){.wait_status = -1};
    int code = check_options(options, error);
    if (code < 0)
        return code;
    /* Of its 130 kB little is used. On the stack or from calloc(), all of it would be written. */
    struct host *host =
        mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
        return error_set(error, -errno, "no memory for the session: %s", strerror(errno));
    host->options = options;
    host->result = result;
    host->descendants.events = host->descendants.waker = -1;
    host->signals = host->command_pidfd = host->command_status = -1;
    const struct server_user user = {
        .readable = handle_readable,
        .progress = report_progress,
        .request = handle_request,
        .read_events = read_events,
        .session = {.descends = descends, .ending = report_ending, .context = host},
        .context = host};
    if ((code = check_policy(host, error)) < 0) {
        munmap(host, sizeof(*host));
        return code;
    }
    code = session_open(&host->session, options->config, options->follow_children,
                        SESSION_TRACE_FILE, options->trace_fd);
    if (code < 0) {
        access_policy_clear(&host->policy);
        munmap(host, sizeof(*host));
        return error_set(error, code, "cannot begin the trace: %s", strerror(-code));
    }
    host->session.policy = &host->policy;

    code = server_open(&host->server, &user, NULL, -1, error);
    if (code == 0 && ((code = host->signals = command_signals_open(&host->before)) < 0 ||
                      (code = server_watch(&host->server, host->signals)) < 0))
        error_set(error, code, "cannot listen to signals: %s", strerror(-code));
    if (code == 0) {
        server_begin_session(&host->server, &host->session);
        host->session.id = (uint64_t)getpid();
        host->session.owner = access_self();
        code = start_command(host, error);
    }
    if (code == 0 && result->started) {
        /* Before its hello, the command is busy with its exec and its libraries. */
        file_reader_start();
        session_requests_open(&host->requests, &host->server);
        session_prepare(&host->session, host->program);
        run_loop(host);
        end_session(host);
        /* It ends while we close the rest. */
        file_reader_dismiss();
    }
    server_close(&host->server);
    descendants_close(&host->descendants);
    if (host->command_pidfd >= 0)
        close(host->command_pidfd);
    /* If the command goes on, host_wait() still passes signals on to it. */
    if (!result->started || result->wait_status != -1)
        command_signals_close();
    int closed = session_close(&host->session);
    file_reader_close();
    session_requests_close(&host->requests);
    access_policy_clear(&host->policy);
    munmap(host, sizeof(*host));
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
