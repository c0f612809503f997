/* SPDX-License-Identifier: Apache-2.0 */
/* Start, restart and end the process. */
#include "recorder/service/child_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/sockets/run_directory.h"
#include "util/clock.h"
#include "util/kernel_calls.h"
#include "util/priority.h"

#define PAUSE_MS_MIN 100u
#define PAUSE_MS_MAX 10000u
/* A process that ran this long is started again soon. */
#define STEADY_MS 10000u
/* It passes on what the sessions wrote last meanwhile. */
#define END_MS 10000

static _Noreturn void child_process_run(const struct child_process *process, pid_t parent)
{
    /* A terminal's Ctrl-C is for the daemon, which ends the sessions first. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setenv(RUN_DIRECTORY_ENV, process->run_directory, 1);
    setenv(CHILD_PROCESS_ENV, "1", 1);
    if (getppid() == parent)
        execv(process->arguments[0], (char *const *)process->arguments);
    _exit(127);
}

static void plan(struct child_process *process, uint64_t now_ms)
{
    if (process->pause_ms == 0 || now_ms - process->started_ms >= STEADY_MS)
        process->pause_ms = PAUSE_MS_MIN;
    process->due_ms = now_ms + process->pause_ms;
    process->pause_ms = process->pause_ms < PAUSE_MS_MAX / 2 ? process->pause_ms * 2 : PAUSE_MS_MAX;
}

int child_process_start_if_due(struct child_process *process)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    pid_t self = getpid();
    if (process->name == NULL || process->pid > 0 || now_ms < process->due_ms)
        return -1;
    process->started_ms = now_ms;
    process->pid = fork();
    if (process->pid == 0)
        child_process_run(process, self);
    if (process->pid > 0) {
        priority_restore(process->pid);
        process->due_ms = UINT64_MAX;
        process->pidfd = kernel_pidfd_open(process->pid, 0);
    }
    if (process->pid > 0 && process->pidfd >= 0)
        return process->pidfd;
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
    process->pid = 0;
    plan(process, now_ms);
    return -1;
}

void child_process_reap(struct child_process *process)
{
    char line[192];
    int status = 0;
    if (waitpid(process->pid, &status, WNOHANG) <= 0)
        return;
    close(process->pidfd);
    plan(process, clock_read_ms(CLOCK_MONOTONIC));
    bool is_hopeless = WIFEXITED(status) && WEXITSTATUS(status) == CHILD_PROCESS_HOPELESS;
    if (is_hopeless)
        process->due_ms = UINT64_MAX;
    snprintf(line, sizeof(line), "%s, process %d, ended by %s %d; %s", process->name,
             (int)process->pid, WIFSIGNALED(status) ? "signal" : "itself, status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             is_hopeless ? "correct its configuration, and reload or restart the daemon"
                         : "it is started again");
    process->log(line);
    process->pid = 0;
}

void child_process_end(struct child_process *process)
{
    struct pollfd ended = {.fd = process->pidfd, .events = POLLIN};
    if (process->pid <= 0)
        return;
    kill(process->pid, SIGTERM);
    if (poll(&ended, 1, END_MS) == 0)
        kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->pidfd);
    process->pid = 0;
}
