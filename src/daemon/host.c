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
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/launcher.h"
#include "daemon/rendezvous.h"
#include "daemon/session.h"

/* Samples of memory, and calls of progress. */
#define SAMPLE_PERIOD_MS 100

/* Rings are looked at so often that a look finds about a sixteenth of a ring, and
 * never less often than this. At interval 1 an idle program may come to write
 * hundreds of megabytes a second at once: it gets less time to fill a ring. */
#define LOOK_DELAY_MAX_MS 50
#define LOOK_DELAY_MAX_DENSE_MS 5
#define DENSE_INTERVAL_BYTES 256

/* After a signal that the command probably got too: this long it may take to end. */
#define GRACE_MS 1000

#define EVENTS_AT_ONCE 64

struct host {
    const struct host_options *options;
    struct host_result *result;
    struct session session;
    struct rendezvous rendezvous;
    int epoll, signals, command_pidfd;
    sigset_t mask_before;
    struct sigaction child_before;

    uint64_t start_ms; /* all times: CLOCK_MONOTONIC */
    uint64_t look_ms, look_delay_ms;
    uint64_t sample_ms;
    uint64_t dump_ms; /* UINT64_MAX: no dumps but the last */
    uint64_t end_ms;  /* UINT64_MAX: not set */
    uint64_t grace_end_ms;
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

static int watch(const struct host *host, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(host->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_loop(struct host *host, struct error *error)
{
    host->epoll = epoll_create1(EPOLL_CLOEXEC);
    int code = host->epoll < 0 || host->signals < 0 ? -errno : watch(host, host->signals);
    if (code < 0)
        return error_set(error, code, "cannot set up the profiler's event loop: %s",
                         strerror(-code));
    return rendezvous_open(&host->rendezvous, host->epoll, error);
}

static int start_command(struct host *host, struct error *error)
{
    struct launch launch = {
        .command = host->options->command,
        .library = host->options->preload_library,
        .socket = host->rendezvous.path,
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
    if (host->command_pidfd < 0 || (code = watch(host, host->command_pidfd)) < 0) {
        code = code < 0 ? code : -errno;
        return error_set(error, code, "cannot watch over %s: %s (Linux 5.3 or later is needed)",
                         host->options->command[0], strerror(-code));
    }
    return 0;
}

static void start_clocks(struct host *host)
{
    const struct heap_config *config = host->options->config;
    host->start_ms = clock_read_ms(CLOCK_MONOTONIC);
    host->look_ms = host->start_ms;
    host->look_delay_ms = 1;
    host->sample_ms = host->start_ms + SAMPLE_PERIOD_MS;
    host->end_ms = config->duration_ms > 0 ? host->start_ms + config->duration_ms : UINT64_MAX;
    host->grace_end_ms = host->dump_ms = UINT64_MAX;
    if (config->dump_interval_ms > 0)
        host->dump_ms = host->start_ms + (config->dump_phase_ms > 0 ? config->dump_phase_ms
                                                                    : config->dump_interval_ms);
}

/* --- what happens --- */

static int answer_hello(void *context, pid_t pid, uid_t uid, const struct handshake_hello *hello,
                        struct handshake_reply *reply, int *memfd)
{
    struct host *host = context;
    int verdict = session_hello(&host->session, pid, uid, hello, reply, memfd);
    if (verdict == 1) {
        /* The command's own end is watched for already. */
        if (pid != host->session.command_pid)
            watch(host, session_find(&host->session, pid)->pidfd);
        /* A new program allocates most at its start. */
        host->look_delay_ms = 1;
        host->look_ms = clock_read_ms(CLOCK_MONOTONIC) + 1;
    }
    return verdict;
}

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
            host->grace_end_ms = clock_read_ms(CLOCK_MONOTONIC) + GRACE_MS;
        }
    }
}

static void handle_ended_process(struct host *host, int pidfd)
{
    for (size_t i = 0; i < host->session.target_count; i++) {
        const struct target *target = host->session.targets[i];
        if (target->pidfd == pidfd) {
            session_process_ended(&host->session, target->info.pid, -1);
            return;
        }
    }
}

static void look(struct host *host, uint64_t now_ms)
{
    uint64_t longest = host->session.config->sampling_interval_bytes <= DENSE_INTERVAL_BYTES
                           ? LOOK_DELAY_MAX_DENSE_MS
                           : LOOK_DELAY_MAX_MS;
    uint64_t bytes = session_look(&host->session);
    uint64_t wanted = host->session.ring_bytes / 16;
    uint64_t delay = host->look_delay_ms > 0 ? host->look_delay_ms : 1;
    if (bytes > 2 * wanted)
        delay = 0;
    else if (bytes > wanted)
        delay = delay * wanted / bytes;
    else if (bytes < wanted / 2)
        delay *= 2;
    host->look_delay_ms = delay < longest ? delay : longest;
    host->look_ms = now_ms + host->look_delay_ms;
}

static void tell_progress(struct host *host, uint64_t now_ms)
{
    if (host->options->progress == NULL)
        return;
    struct host_progress progress = {
        .elapsed_ms = now_ms - host->start_ms,
        .processes = host->session.profiled,
        .live_bytes = session_live_bytes(&host->session),
        .samples = session_samples(&host->session),
        .lost = session_lost(&host->session),
        .rss_bytes = host->session.command_rss_bytes,
    };
    host->options->progress(host->options->progress_context, &progress);
}

/* Does what is due, and returns how long nothing will be. */
static int do_due(struct host *host)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (now_ms >= host->look_ms)
        look(host, now_ms);
    if (now_ms >= host->sample_ms) {
        session_sample_memory(&host->session);
        tell_progress(host, now_ms);
        host->sample_ms = now_ms + SAMPLE_PERIOD_MS;
    }
    if (now_ms >= host->dump_ms) {
        session_dump(&host->session);
        /* In step with the clock, however long a dump takes. */
        while (host->dump_ms <= now_ms)
            host->dump_ms += host->options->config->dump_interval_ms;
    }
    if (now_ms >= host->grace_end_ms) {
        host->result->interrupted = true;
        host->ended = true;
    }
    if (now_ms >= host->end_ms)
        host->ended = true;

    uint64_t next = rendezvous_expire(&host->rendezvous, now_ms);
    const uint64_t times[] = {host->look_ms, host->sample_ms, host->dump_ms, host->grace_end_ms,
                              host->end_ms};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (times[i] < next)
            next = times[i];
    }
    return next > now_ms ? (int)(next - now_ms) : 0;
}

static void run_loop(struct host *host)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    while (!host->ended && !host->command_ended) {
        int timeout_ms = do_due(host);
        if (host->ended)
            break;
        int count = epoll_wait(host->epoll, events, EVENTS_AT_ONCE, timeout_ms);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == host->signals)
                handle_signals(host);
            else if (fd == host->command_pidfd)
                host->command_ended = true;
            else if (!rendezvous_serve(&host->rendezvous, fd, answer_hello, host))
                handle_ended_process(host, fd);
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
    tell_progress(host, clock_read_ms(CLOCK_MONOTONIC));
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
    struct host host = {.options = options,
                        .result = result,
                        .epoll = -1,
                        .signals = -1,
                        .command_pidfd = -1,
                        .rendezvous = {.listener = -1, .spare = -1}};
    code =
        session_open(&host.session, options->config, options->follow_children, options->trace_fd);
    if (code < 0)
        return error_set(error, code, "cannot begin the trace: %s", strerror(-code));

    take_signals(&host);
    code = open_loop(&host, error);
    if (code == 0)
        code = start_command(&host, error);
    if (code == 0 && result->started) {
        start_clocks(&host);
        run_loop(&host);
        end_session(&host);
    }
    rendezvous_close(&host.rendezvous);
    if (host.command_pidfd >= 0)
        close(host.command_pidfd);
    if (host.epoll >= 0)
        close(host.epoll);
    give_signals_back(&host);
    int closed = session_close(&host.session);
    if (code == 0 && closed < 0)
        code = error_set(error, closed, "cannot write the trace: %s", strerror(-closed));
    return code;
}
