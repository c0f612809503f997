/* SPDX-License-Identifier: Apache-2.0 */
/* Make the command's environment, fork and exec. */
#include "daemon/host/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Run in the child until exec. */
static _Noreturn void become_command(const struct launch *launch, char **environment, int report)
{
    sigaction(SIGCHLD, &launch->child, NULL);
    sigprocmask(SIG_SETMASK, &launch->signal_mask, NULL);
    execvpe(launch->command[0], launch->command, environment);
    int reason = errno;
    if (write(report, &reason, sizeof(reason)) < 0)
        _exit(126);
    _exit(127);
}

pid_t launcher_start(const struct launch *launch, int *exec_errno, struct error *error)
{
    int report[2] = {-1, -1};
    pid_t pid = -1;
    *exec_errno = 0;
    struct environment environment;
    if (environment_make(&environment, launch) < 0)
        return error_set(error, -ENOMEM, "cannot start %s: no memory", launch->command[0]);
    int code = pipe2(report, O_CLOEXEC) < 0 ? -errno : 0;
    if (code == 0) {
        /* From here on, the kernel delivers signals to our group to both processes. */
        sigpending(launch->missed);
        pid = fork();
        if (pid == 0)
            become_command(launch, environment.entries, report[1]);
        if (pid < 0)
            code = -errno;
    }
    environment_free(&environment);
    if (report[1] >= 0)
        close(report[1]);
    if (code < 0) {
        if (report[0] >= 0)
            close(report[0]);
        return error_set(error, code, "cannot start %s: %s", launch->command[0], strerror(-code));
    }

    /* The read returns nothing if exec closes the other end. */
    int reason;
    ssize_t got;
    do {
        got = read(report[0], &reason, sizeof(reason));
    } while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got == sizeof(reason)) {
        *exec_errno = reason;
        waitpid(pid, NULL, 0);
    }
    return pid;
}
