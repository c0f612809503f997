/* SPDX-License-Identifier: Apache-2.0 */
/* Forks, runs heap_profile, and collects what it prints. */
#include "tools/cli/view/self_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/sibling_program.h"
#include "util/xmalloc.h"

/* The status of a thousand processes needs a quarter of it. */
#define OUTPUT_BYTES_MAX (1u << 20)
#define READ_BYTES 8192u

/* --- start --- */

/* Run in the child of a process with threads: only async-signal-safe functions. */
static _Noreturn void become(const char *path, const char *const *arguments, int output, int errors,
                             pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY);
    if (getppid() != parent || setpgid(0, 0) < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(output, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
        _exit(127);
    close_descriptors(STDERR_FILENO + 1, ~0U);
    execv(path, (char *const *)arguments);
    _exit(127);
}

pid_t self_start(const char *const *arguments, int output, int errors, struct error *error)
{
    char path[PATH_MAX];
    int code = sibling_program_find("heap_profile", path, error);
    if (code < 0)
        return code;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(path, arguments, output, errors, parent);
    if (pid < 0)
        return error_set(error, -errno, "cannot start heap_profile: %s", strerror(errno));
    return pid;
}

/* --- run to the end --- */

/* What has been read from one of its outputs. */
struct text {
    int fd; /* -1: at its end */
    char *bytes;
    size_t length, capacity;
};

static int open_text(struct text *text, int *writer)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *text = (struct text){.fd = ends[0]};
    *writer = ends[1];
    return 0;
}

static void close_text(struct text *text)
{
    if (text->fd >= 0)
        close(text->fd);
    text->fd = -1;
}

/* Read a part. Return 0 or a negative errno. */
static int read_text(struct text *text)
{
    if (text->length > OUTPUT_BYTES_MAX)
        return -E2BIG;
    XARRAY_RESERVE(&text->bytes, &text->capacity, text->length, READ_BYTES + 1);
    ssize_t got = read(text->fd, text->bytes + text->length, READ_BYTES);
    if (got < 0)
        return errno == EINTR ? 0 : -errno;
    text->length += (size_t)got;
    text->bytes[text->length] = '\0';
    if (got == 0)
        close_text(text);
    return 0;
}

/* Read both to their ends. */
static int read_texts(struct text texts[2], uint64_t deadline_ms)
{
    int code = 0;
    while (code == 0 && (texts[0].fd >= 0 || texts[1].fd >= 0)) {
        struct pollfd waited[2] = {{texts[0].fd, POLLIN, 0}, {texts[1].fd, POLLIN, 0}};
        uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
        int count = now_ms < deadline_ms ? poll(waited, 2, (int)(deadline_ms - now_ms)) : 0;
        if (count == 0)
            return -ETIMEDOUT;
        for (size_t i = 0; i < 2 && count > 0 && code == 0; i++)
            if (waited[i].revents != 0)
                code = read_text(&texts[i]);
    }
    return code;
}

int self_exit_code(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* Start it and read what it prints. Return 0 or a negative errno. */
static int collect(const char *const *arguments, unsigned seconds, struct text texts[2],
                   int *wait_status, struct error *error)
{
    int writers[2] = {-1, -1};
    int code = open_text(&texts[0], &writers[0]);
    if (code == 0)
        code = open_text(&texts[1], &writers[1]);
    if (code < 0)
        error_set(error, code, "cannot start heap_profile: %s", strerror(-code));
    pid_t pid = code < 0 ? code : self_start(arguments, writers[0], writers[1], error);
    for (size_t i = 0; i < 2; i++)
        if (writers[i] >= 0)
            close(writers[i]);
    if (pid < 0)
        return pid;
    code = read_texts(texts, clock_read_ms(CLOCK_MONOTONIC) + seconds * UINT64_C(1000));
    if (code == -ETIMEDOUT)
        error_set(error, code, "heap_profile %s has not answered for %u s", arguments[1], seconds);
    else if (code < 0)
        error_set(error, code, "cannot read what heap_profile %s prints: %s", arguments[1],
                  strerror(-code));
    if (code < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, wait_status, 0) < 0 && errno == EINTR)
        ;
    return code;
}

int self_run(const char *const *arguments, unsigned seconds, struct self_output *output,
             struct error *error)
{
    struct text texts[2] = {{.fd = -1}, {.fd = -1}};
    int wait_status = 0;
    int code = collect(arguments, seconds, texts, &wait_status, error);
    close_text(&texts[0]);
    close_text(&texts[1]);
    *output = (struct self_output){texts[0].bytes, texts[1].bytes, self_exit_code(wait_status)};
    return code;
}

void self_output_clear(struct self_output *output)
{
    free(output->text);
    free(output->errors);
    *output = (struct self_output){0};
}

int self_output_error(const struct self_output *output, int code, struct error *error)
{
    static const char name[] = "heap_profile: ";
    const char *text = output->errors != NULL ? output->errors : "";
    if (strncmp(text, name, sizeof(name) - 1) == 0)
        text += sizeof(name) - 1;
    int length = (int)strcspn(text, "\n");
    if (length == 0)
        return error_set(error, code, "heap_profile failed with exit code %d", output->status);
    return error_set(error, code, "%.*s", length, text);
}
