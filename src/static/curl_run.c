/* SPDX-License-Identifier: Apache-2.0 */
/* Starts curl with descriptors for its options, what it sends, what it receives and its errors. */
#include "static/curl_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/write_all.h"

#define PROGRAM "curl"
/* Where curl finds the body. */
#define BODY 3
#define BODY_PATH "@/proc/self/fd/3"

bool curl_run_is_possible(void)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    while (path != NULL && *path != '\0') {
        int length = (int)strcspn(path, ":");
        if (length > 0 && length < PATH_MAX - 8) {
            snprintf(file, sizeof(file), "%.*s/" PROGRAM, length, path);
            if (access(file, X_OK) == 0)
                return true;
        }
        path += length;
        path += *path == ':';
    }
    return false;
}

/* --- options --- */

/* Make room. The bytes of an older place are wiped: they may have a secret. */
static bool curl_run_reserve(struct curl_run *run, size_t more)
{
    if (run->capacity - run->length >= more)
        return true;
    size_t capacity = 2 * run->capacity + more;
    char *options = malloc(capacity);
    if (options == NULL) {
        run->is_out_of_memory = true;
        return false;
    }
    memcpy(options, run->options != NULL ? run->options : "", run->length);
    if (run->options != NULL)
        explicit_bzero(run->options, run->length);
    free(run->options);
    run->options = options;
    run->capacity = capacity;
    return true;
}

/* Each line of curl's configuration is NAME or NAME = "VALUE". */
void curl_run_add(struct curl_run *run, const char *name, const char *value)
{
    if (!curl_run_reserve(run, strlen(name) + 2 * (value != NULL ? strlen(value) : 0) +
                                   sizeof(" = \"\"\n")))
        return;
    char *to = stpcpy(run->options + run->length, name);
    if (value != NULL) {
        to = stpcpy(to, " = \"");
        for (; *value != '\0'; value++) {
            const char *special = strchr("\\\"\n\r\t", *value);
            if (special != NULL)
                *to++ = '\\';
            *to++ = *value == '\n' ? 'n' : *value == '\r' ? 'r' : *value == '\t' ? 't' : *value;
        }
        *to++ = '"';
    }
    *to++ = '\n';
    run->length = (size_t)(to - run->options);
}

static void curl_run_forget(struct curl_run *run)
{
    if (run->options != NULL)
        explicit_bzero(run->options, run->length);
    free(run->options);
    run->options = NULL;
    run->length = run->capacity = 0;
}

/* --- starting --- */

enum descriptor { OPTIONS, SENT, ANSWER, ANSWER_END, ERRORS, ERRORS_END, DESCRIPTORS };

/* Move the descriptor above the numbers that curl gets. */
static int curl_run_move(int descriptor)
{
    int moved = descriptor < 0 ? descriptor : fcntl(descriptor, F_DUPFD_CLOEXEC, BODY + 1);
    if (descriptor >= 0)
        close(descriptor);
    return moved;
}

/* Return a file in memory with these bytes, to be read from its begin; or a negative errno. */
static int curl_run_keep(const void *bytes, size_t length)
{
    int file = curl_run_move(memfd_create("heapprofd-curl", MFD_CLOEXEC));
    if (file < 0)
        return -errno;
    int code = write_all(file, bytes, length);
    if (code == 0 && lseek(file, 0, SEEK_SET) == 0)
        return file;
    close(file);
    return code < 0 ? code : -EIO;
}

static int curl_run_pipe(int *read_end, int *write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *read_end = curl_run_move(ends[0]);
    *write_end = curl_run_move(ends[1]);
    return *read_end < 0 || *write_end < 0 ? -EMFILE : 0;
}

static int curl_run_spawn(struct curl_run *run, const int *fds)
{
    /* -q: not what a user wrote into ~/.curlrc. */
    char *const arguments[] = {PROGRAM, "-q", "-K", "-", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    int code = posix_spawn_file_actions_adddup2(&actions, fds[OPTIONS], STDIN_FILENO);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, fds[ANSWER_END], STDOUT_FILENO);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, fds[ERRORS_END], STDERR_FILENO);
    if (code == 0 && fds[SENT] >= 0)
        code = posix_spawn_file_actions_adddup2(&actions, fds[SENT], BODY);
    if (code == 0)
        code = posix_spawnp(&run->pid, PROGRAM, &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0)
        run->pid = 0;
    return -code;
}

int curl_run_start(struct curl_run *run, const void *body, size_t length)
{
    int fds[DESCRIPTORS] = {-1, -1, -1, -1, -1, -1};
    if (body != NULL)
        curl_run_add(run, "data-binary", BODY_PATH);
    /* Brackets and braces in a URL are its own, not a pattern of several. */
    curl_run_add(run, "globoff", NULL);
    curl_run_add(run, "silent", NULL);
    curl_run_add(run, "show-error", NULL);
    int code = run->is_out_of_memory ? -ENOMEM : 0;
    if (code == 0)
        code = fds[OPTIONS] = curl_run_keep(run->options, run->length);
    if (code >= 0 && body != NULL)
        code = fds[SENT] = curl_run_keep(body, length);
    if (code >= 0)
        code = curl_run_pipe(&fds[ANSWER], &fds[ANSWER_END]);
    if (code == 0)
        code = curl_run_pipe(&fds[ERRORS], &fds[ERRORS_END]);
    if (code == 0)
        code = curl_run_spawn(run, fds);
    for (int i = 0; i < DESCRIPTORS; i++) {
        bool is_kept = code == 0 && (i == ANSWER || i == ERRORS);
        if (fds[i] >= 0 && !is_kept)
            close(fds[i]);
    }
    run->answer = fds[ANSWER];
    run->errors = fds[ERRORS];
    run->is_out_of_memory = false;
    curl_run_forget(run);
    return code;
}

/* --- the end --- */

/* Take curl's sentence out of "curl: (CODE) SENTENCE", and return the code; 0: it says none. */
static int curl_run_read_failure(int errors, char failure[CURL_RUN_FAILURE_BYTES])
{
    char text[2048];
    size_t length = 0;
    ssize_t got = 1;
    int code = 0, at = 0;
    while (length < sizeof(text) - 1 && got > 0) {
        got = read(errors, text + length, sizeof(text) - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    const char *line = strstr(text, "curl: (");
    if (line == NULL || sscanf(line, "curl: (%d) %n", &code, &at) != 1 || at == 0)
        return 0;
    snprintf(failure, CURL_RUN_FAILURE_BYTES, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    return code;
}

int curl_run_finish(struct curl_run *run, char failure[CURL_RUN_FAILURE_BYTES])
{
    int status = 0;
    failure[0] = '\0';
    int code = curl_run_read_failure(run->errors, failure);
    /* Somebody else may have waited for it. Then its message has the code. */
    if (waitpid(run->pid, &status, 0) == run->pid)
        code = WIFEXITED(status) ? WEXITSTATUS(status) : code > 0 ? code : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status))
        snprintf(failure, CURL_RUN_FAILURE_BYTES, PROGRAM " was ended by signal %d",
                 WTERMSIG(status));
    close(run->answer);
    close(run->errors);
    run->pid = 0;
    return code;
}

void curl_run_stop(struct curl_run *run)
{
    if (run->pid > 0) {
        kill(run->pid, SIGKILL);
        waitpid(run->pid, NULL, 0);
        close(run->answer);
        close(run->errors);
        run->pid = 0;
    }
    curl_run_forget(run);
}

const char *curl_run_explain(int code)
{
    return code == -ENOENT ? "this program, which is linked statically, sends by the program curl, "
                             "which is not in PATH; install curl"
                           : strerror(-code);
}
