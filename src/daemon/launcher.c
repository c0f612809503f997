/* See launcher.h. */
#include "daemon/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/program.h"
#include "wire/handshake.h"

extern char **environ;

#define PRELOAD_ENV "LD_PRELOAD"

static bool entry_is(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* The environment of the command: ours, with two entries in place of what was there. */
struct environment {
    char **entries;
    char *preload, *socket;
};

static void environment_free(struct environment *environment)
{
    free(environment->entries);
    free(environment->preload);
    free(environment->socket);
}

/* "NAME=a", or "NAME=a:b" if there is a b; NULL: no memory. */
static char *make_entry(const char *name, const char *a, const char *b)
{
    bool both = b != NULL && b[0] != 0;
    char *entry;
    if (asprintf(&entry, "%s=%s%s%s", name, a, both ? ":" : "", both ? b : "") < 0)
        return NULL;
    return entry;
}

/* musl's loader ends a program whose preloaded library was built for glibc, and glibc's would
 * only complain: a program that cannot be profiled must run all the same. */
static bool refuses_library(const char *command)
{
    char path[PATH_MAX];
    struct program program;
    program_find(command, path, sizeof(path));
    return path[0] != 0 && program_read(&program, path) == 0 && program.is_musl;
}

static int environment_make(struct environment *environment, const struct launch *launch)
{
    size_t count = 0, used = 0;
    bool as_it_is = refuses_library(launch->command[0]);
    while (environ[count] != NULL)
        count++;
    environment->entries = calloc(count + 3, sizeof(*environment->entries));
    environment->preload = make_entry(PRELOAD_ENV, launch->library, getenv(PRELOAD_ENV));
    environment->socket = make_entry(HANDSHAKE_SOCKET_ENV, launch->socket, NULL);
    if (environment->entries == NULL || environment->preload == NULL ||
        environment->socket == NULL) {
        environment_free(environment);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (as_it_is ||
            (!entry_is(environ[i], PRELOAD_ENV) && !entry_is(environ[i], HANDSHAKE_SOCKET_ENV)))
            environment->entries[used++] = environ[i];
    }
    if (!as_it_is) {
        environment->entries[used++] = environment->preload;
        environment->entries[used++] = environment->socket;
    }
    return 0;
}

/* In the child, until exec. */
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

    /* Ends without a word when exec closes the other end. */
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
