/* SPDX-License-Identifier: Apache-2.0 */
/* Make the command's environment, fork and exec. */
#include "recorder/host/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/attach/entry.h"
#include "wire/handshake.h"

extern char **environ;

#define PRELOAD_ENV "LD_PRELOAD"

/* The command's environment: ours, with some entries replaced. */
struct environment {
    char **entries;
    char *added[3];
};

#define ADDED_ENTRIES (sizeof((struct environment){0}.added) / sizeof(char *))

static void environment_free(struct environment *environment)
{
    free(environment->entries);
    for (size_t i = 0; i < ADDED_ENTRIES; i++)
        free(environment->added[i]);
}

/* Return "NAME=a:b", or "NAME=a" or "NAME=b" if the other is missing. NULL: no memory. */
static char *make_entry(const char *name, const char *a, const char *b)
{
    a = a != NULL ? a : "";
    b = b != NULL ? b : "";
    char *entry;
    if (asprintf(&entry, "%s=%s%s%s", name, a, a[0] != 0 && b[0] != 0 ? ":" : "", b) < 0)
        return NULL;
    return entry;
}

static bool is_replaced(const struct environment *environment, const char *entry)
{
    for (size_t i = 0; i < ADDED_ENTRIES; i++) {
        size_t length = strcspn(environment->added[i], "=") + 1;
        if (strncmp(entry, environment->added[i], length) == 0)
            return true;
    }
    return false;
}

static int environment_make(struct environment *environment, const struct launch *launch)
{
    size_t count = 0, used = 0;
    while (environ[count] != NULL)
        count++;
    environment->entries = calloc(count + ADDED_ENTRIES + 1, sizeof(*environment->entries));
    environment->added[0] = make_entry(PRELOAD_ENV, launch->library, getenv(PRELOAD_ENV));
    environment->added[1] = make_entry(HANDSHAKE_SOCKET_ENV, launch->socket, NULL);
    environment->added[2] =
        make_entry(LAUNCHER_ASAN_ENV, getenv(LAUNCHER_ASAN_ENV), LAUNCHER_ASAN_OPTION);
    bool failed = environment->entries == NULL;
    for (size_t i = 0; i < ADDED_ENTRIES; i++)
        failed |= environment->added[i] == NULL;
    if (failed) {
        environment_free(environment);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_replaced(environment, environ[i]))
            environment->entries[used++] = environ[i];
    }
    for (size_t i = 0; i < ADDED_ENTRIES; i++)
        environment->entries[used++] = environment->added[i];
    return 0;
}

/* Run in the child until exec. `go` (-1: none) is readable once the profiler is ready. */
static _Noreturn void become_command(const struct launch *launch, char **environment, int report,
                                     int go)
{
    char byte;
    while (go >= 0 && read(go, &byte, 1) < 0 && errno == EINTR)
        ;
    sigaction(SIGCHLD, &launch->child, NULL);
    sigprocmask(SIG_SETMASK, &launch->signal_mask, NULL);
    if (launch->program != NULL)
        execve(launch->program, launch->command, environment);
    else
        execvpe(launch->command[0], launch->command, environment);
    int reason = errno;
    if (write(report, &reason, sizeof(reason)) < 0)
        _exit(126);
    _exit(127);
}

/* Pipes between us and the child until its exec. */
struct launch_pipes {
    int report[2]; /* from the child: why its exec failed */
    int go[2];     /* to the child: its end allows the exec */
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static pid_t start_child(const struct launch *launch, char **environment,
                         struct launch_pipes *pipes)
{
    if (pipe2(pipes->report, O_CLOEXEC) < 0 || (launch->holds && pipe2(pipes->go, O_CLOEXEC) < 0))
        return -errno;
    /* From here on, the kernel delivers signals to our group to both processes. */
    sigpending(launch->missed);
    /* A child that is not held only calls exec: it can do that in our memory while we wait. Copying
     * our page tables, and then each page that we write, would take 0.2 ms. */
    pid_t pid = launch->holds ? fork() : vfork();
    if (pid == 0) {
        close_end(&pipes->go[1]);
        become_command(launch, environment, pipes->report[1], pipes->go[0]);
    }
    return pid < 0 ? -errno : pid;
}

/* Let the child call exec, and hold it there if it is to be held. */
static void let_exec(pid_t pid, struct launch_pipes *pipes, bool holds, struct error *not_held)
{
    bool is_watched = holds && entry_watch(pid, not_held) == 0;
    close_end(&pipes->report[1]);
    close_end(&pipes->go[0]);
    close_end(&pipes->go[1]);
    if (is_watched && entry_hold(pid, 0) < 0)
        error_set(not_held, -ESRCH, "it ended before it began");
}

pid_t launcher_start(const struct launch *launch, int *exec_errno, struct error *not_held,
                     struct error *error)
{
    struct launch_pipes pipes = {{-1, -1}, {-1, -1}};
    struct environment environment;
    *exec_errno = 0;
    *not_held = (struct error){0};
    if (environment_make(&environment, launch) < 0)
        return error_set(error, -ENOMEM, "cannot start %s: no memory", launch->command[0]);
    pid_t pid = start_child(launch, environment.entries, &pipes);
    environment_free(&environment);
    if (pid > 0)
        let_exec(pid, &pipes, launch->holds, not_held);

    /* The read returns nothing if exec closes the other end. */
    int reason;
    ssize_t got = 0;
    while (pid > 0 && (got = read(pipes.report[0], &reason, sizeof(reason))) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < 2; i++) {
        close_end(&pipes.report[i]);
        close_end(&pipes.go[i]);
    }
    if (pid < 0)
        return error_set(error, pid, "cannot start %s: %s", launch->command[0], strerror(-pid));
    if (got == sizeof(reason)) {
        *exec_errno = reason;
        waitpid(pid, NULL, 0);
    }
    return pid;
}
