/* SPDX-License-Identifier: Apache-2.0 */
/* Starts heap_profile view on the recording's directory, takes dumps for it, and ends it. */
#include "tools/cli/record/live_view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/main/verb_program.h"
#include "util/close_descriptors.h"

/* Run in the child. Standard input and output belong to the profiled command. */
static _Noreturn void become_view(pid_t parent, const char *directory)
{
    const char *const arguments[] = {"heap_profile", "view", "--", directory, NULL};
    signal(SIGTERM, SIG_DFL);
    signal(SIGTTOU, SIG_IGN); /* it writes its address from the background */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int null = open("/dev/null", O_RDONLY);
    if (getppid() != parent || setpgid(0, 0) < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(1);
    close_descriptors(STDERR_FILENO + 1, ~0U);
    verb_program_run((char *const *)arguments);
    _exit(1);
}

int live_view_start(struct live_view *view, const char *directory, const struct heap_config *config,
                    struct error *error)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_view(parent, directory);
    if (pid < 0)
        return error_set(error, -errno, "cannot start heap_profile view: %s", strerror(errno));
    *view = (struct live_view){.pid = pid, .takes_dumps = config->dump_interval_ms == 0};
    return 0;
}

void live_view_follow(struct live_view *view, uint64_t elapsed_ms, unsigned processes)
{
    if (view->takes_dumps && processes > 0 && dump_schedule_is_due(&view->schedule, elapsed_ms))
        raise(SIGUSR1);
}

void live_view_end(struct live_view *view)
{
    if (view->pid == 0)
        return;
    kill(view->pid, SIGTERM);
    while (waitpid(view->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    view->pid = 0;
}

/* Fill the signals that end the page: without those that we ignore, as under nohup(1). */
static void fill_ends(sigset_t *ends)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(ends);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(ends, numbers[i]);
    }
}

void live_view_stay(struct live_view *view)
{
    static const struct timespec second = {.tv_sec = 1};
    sigset_t ends, before;
    if (view->pid == 0)
        return;
    fill_ends(&ends);
    sigprocmask(SIG_BLOCK, &ends, &before);
    if (waitpid(view->pid, NULL, WNOHANG) == 0)
        fputs("heap_profile: the recording has ended; the page stays until Ctrl-C\n", stderr);
    else
        view->pid = 0;
    while (view->pid != 0) {
        if (sigtimedwait(&ends, NULL, &second) > 0)
            live_view_end(view);
        else if (waitpid(view->pid, NULL, WNOHANG) != 0)
            view->pid = 0;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
