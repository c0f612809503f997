/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers, and the watcher. Handlers call only async-signal-safe functions. They do not make
 * system calls fail (SA_RESTART), and each blocks the others (sa_mask). */
#include "recorder/host/command_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/process_title.h"

/* Time that the watcher has to report a signal. A shell or timeout(1) that signals several
 * processes needs microseconds, a busy machine longer. */
#define WATCHER_PATIENCE_MS 30
/* A signal that the watcher received within this time before or after ours is the same one. */
#define SAME_SIGNAL_MS 100
/* Two requests for the end within this time are one: timeout(1) signals us and our group. */
#define SAME_REQUEST_MS 250

#define SIGNALS_MAX 65

static const int passed_on[] = {
    SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,   SIGTSTP, SIGUSR2,  SIGALRM,
    SIGPROF, SIGPOLL, SIGPWR,  SIGVTALRM, SIGURG,  SIGWINCH,
};
static const int own[] = {SIGUSR1, SIGCHLD, SIGCONT};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct watched_signal {
    int number;
    uint64_t time_ms;
};

static struct {
    pid_t process; /* pid of this process: a forked child that has our handlers is not meant; 0:
                      closed */
    int event;     /* readable when there are requests */
    pid_t watcher; /* 0: none */
    int watched;   /* the watcher's reports */
    uint64_t watched_ms[SIGNALS_MAX];
    struct command_signals_before before;
    struct sigaction before_of[SIGNALS_MAX];
    sigset_t handled;
    sigset_t missed; /* as in the header, until each signal has been passed on */
    bool handles;
    bool must_stop; /* we received SIGTSTP, and the command has not stopped yet */
} state = {.event = -1, .watched = -1};

static _Atomic pid_t command; /* 0: none */
static atomic_uint asked;

/* --- the watcher --- */

static _Noreturn void watch(pid_t parent, int pipe)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* With our name, a signal to both of us by name (killall) would look like one to the group. */
    process_title_set("signal-watcher");
    if (getppid() != parent || dup2(pipe, STDIN_FILENO) < 0)
        _exit(0);
    /* Do not hold the user's pipes open. */
    close_descriptors(STDIN_FILENO + 1, ~0U);
    sigset_t all;
    siginfo_t info;
    sigfillset(&all);
    for (;;) {
        if (sigwaitinfo(&all, &info) < 0)
            continue;
        struct watched_signal got = {info.si_signo, clock_read_ms(CLOCK_MONOTONIC)};
        if (write(STDIN_FILENO, &got, sizeof(got)) < 0 && errno != EAGAIN)
            _exit(0);
    }
}

/* Start the watcher. Without one, signals to the group are passed on, too. */
static void start_watcher(void)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        watch(parent, ends[1]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return;
    }
    state.watcher = child;
    state.watched = ends[0];
}

static void end_watcher(void)
{
    if (state.watcher == 0)
        return;
    kill(state.watcher, SIGKILL);
    waitpid(state.watcher, NULL, 0);
    close(state.watched);
    state.watcher = 0;
    state.watched = -1;
}

static bool is_recent(int number, uint64_t since_ms)
{
    return state.watched_ms[number] + SAME_SIGNAL_MS >= since_ms && state.watched_ms[number] > 0;
}

/* Return whether the watcher received the signal, too: then the command did. */
static bool was_sent_to_group(int number)
{
    uint64_t start_ms = clock_read_ms(CLOCK_MONOTONIC), left = WATCHER_PATIENCE_MS;
    struct pollfd polled = {.fd = state.watched, .events = POLLIN};
    while (state.watcher > 0 && !is_recent(number, start_ms)) {
        struct watched_signal got;
        while (read(state.watched, &got, sizeof(got)) == sizeof(got))
            if (got.number > 0 && got.number < SIGNALS_MAX)
                state.watched_ms[got.number] = got.time_ms;
        uint64_t gone_ms = clock_read_ms(CLOCK_MONOTONIC) - start_ms;
        if (is_recent(number, start_ms) || gone_ms >= left ||
            poll(&polled, 1, (int)(left - gone_ms)) <= 0 || (polled.revents & POLLIN) == 0)
            break;
    }
    return state.watcher > 0 && is_recent(number, start_ms);
}

/* --- the handlers --- */

static void command_signals_ask(unsigned what)
{
    atomic_fetch_or(&asked, what);
    uint64_t one = 1;
    if (write(state.event, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

/* Request the end of the session, which goes on for other processes after the command's end. A
 * second request ends us at once. */
static void ask_for_end(int number)
{
    static uint64_t first_ms;
    if (first_ms == 0)
        first_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (clock_read_ms(CLOCK_MONOTONIC) - first_ms < SAME_REQUEST_MS) {
        command_signals_ask(COMMAND_SIGNALS_END);
        return;
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* Return the signal that stopped the command, or 0 if it is not stopped. */
static int stopped_by(pid_t pid)
{
    siginfo_t info = {0};
    bool is_stopped = waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
                      info.si_pid == pid && info.si_code == CLD_STOPPED;
    return is_stopped ? info.si_status : 0;
}

/* Return whether we are in the foreground of a terminal: its shell waits until we stop or end. */
static bool is_in_foreground(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_ours = tcgetpgrp(fd) == getpgrp();
    close(fd);
    return is_ours;
}

/* Stop like the command, if a terminal or a shell would have stopped us both. A user who stopped
 * only the command will continue only the command, and then nobody would continue us. */
static void stop_with(pid_t pid, bool at_any_signal)
{
    sigset_t pending;
    int number = stopped_by(pid);
    /* We are already being continued. */
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1)
        return;
    bool stops = at_any_signal ? number != 0 : number == SIGTSTP && is_in_foreground();
    if (!stops)
        return;
    state.must_stop = false;
    raise(SIGSTOP);
}

static void pass_on(pid_t pid, const siginfo_t *info)
{
    int number = info->si_signo;
    bool missed_it = sigismember(&state.missed, number) == 1;
    bool has_it = !missed_it && (info->si_code == SI_KERNEL || info->si_pid == pid ||
                                 info->si_pid == getpid() || was_sent_to_group(number));
    sigdelset(&state.missed, number);
    if (!has_it && info->si_code == SI_QUEUE)
        sigqueue(pid, number, info->si_value);
    else if (!has_it)
        kill(pid, number);
    if (number == SIGTSTP) {
        state.must_stop = true;
        stop_with(pid, true);
    }
}

/* Return whether we ignore a signal: nohup and a shell's & start us so. */
static bool is_ignored(int number)
{
    return state.before_of[number].sa_handler == SIG_IGN;
}

static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    int error_before = errno;
    pid_t pid = atomic_load(&command);
    if (getpid() != state.process) {
        /* A child that we created for another purpose. */
        signal(number, SIG_DFL);
        raise(number);
    } else if (number == SIGUSR1) {
        command_signals_ask(COMMAND_SIGNALS_DUMP);
    } else if (pid == 0) {
        bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
        if (ends && !is_ignored(number))
            ask_for_end(number);
    } else if (number == SIGCHLD) {
        stop_with(pid, state.must_stop);
    } else if (number == SIGCONT) {
        state.must_stop = false;
        if (stopped_by(pid) != 0)
            kill(pid, SIGCONT);
    } else {
        pass_on(pid, info);
    }
    errno = error_before;
}

/* --- interface --- */

static void add_real_time(sigset_t *set)
{
    for (int number = SIGRTMIN; number <= SIGRTMAX && number < SIGNALS_MAX; number++)
        sigaddset(set, number);
}

int command_signals_open(struct command_signals_before *before)
{
    sigemptyset(&state.handled);
    for (size_t i = 0; i < COUNT_OF(passed_on); i++)
        sigaddset(&state.handled, passed_on[i]);
    for (size_t i = 0; i < COUNT_OF(own); i++)
        sigaddset(&state.handled, own[i]);
    add_real_time(&state.handled);
    state.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (state.event < 0)
        return -errno;
    state.process = getpid();
    state.must_stop = false;
    memset(state.watched_ms, 0, sizeof(state.watched_ms));
    atomic_store(&command, 0);
    atomic_store(&asked, 0);
    start_watcher();
    sigprocmask(SIG_BLOCK, &state.handled, &state.before.mask);
    /* If it were ignored, the kernel would discard the command's status. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &standard, &state.before.child);
    *before = state.before;
    return state.event;
}

void command_signals_pass_to(pid_t pid, const sigset_t *missed)
{
    struct sigaction action = {
        .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART, .sa_mask = state.handled};
    state.missed = *missed;
    atomic_store(&command, pid);
    for (int number = 1; number < SIGNALS_MAX; number++) {
        if (sigismember(&state.handled, number) == 1)
            sigaction(number, &action, &state.before_of[number]);
    }
    state.before_of[SIGCHLD] = state.before.child;
    state.handles = true;
    /* Unblock also signals that were blocked at our start: the command may have unblocked them. */
    sigprocmask(SIG_UNBLOCK, &state.handled, NULL);
}

void command_signals_command_ended(void)
{
    atomic_store(&command, 0);
    /* Nobody asks it any more. It ends while we do other work. */
    if (state.watcher > 0)
        kill(state.watcher, SIGKILL);
}

unsigned command_signals_take(void)
{
    uint64_t count;
    if (read(state.event, &count, sizeof(count)) < 0)
        return 0;
    return atomic_exchange(&asked, 0);
}

/* Restore the dispositions. From here on the command gets no signals from us. */
void command_signals_close(void)
{
    if (state.process != getpid())
        return;
    command_signals_command_ended();
    for (int number = 1; state.handles && number < SIGNALS_MAX; number++) {
        if (sigismember(&state.handled, number) == 1)
            sigaction(number, &state.before_of[number], NULL);
    }
    /* A late request for a dump must not kill us before the report. */
    if (state.handles && state.before_of[SIGUSR1].sa_handler == SIG_DFL)
        signal(SIGUSR1, SIG_IGN);
    if (!state.handles)
        sigaction(SIGCHLD, &state.before.child, NULL);
    state.handles = false;
    sigprocmask(SIG_SETMASK, &state.before.mask, NULL);
    end_watcher();
    close(state.event);
    state.event = -1;
    state.process = 0;
}
