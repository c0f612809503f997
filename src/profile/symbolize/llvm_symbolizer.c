/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talk to a child process. Addresses are sent and answers are read in turn, whenever the child is
 * ready, so neither side blocks the other. An answer has two lines for each frame, innermost first,
 * and an empty line at its end. The child's input is a socket: a write to a pipe whose reader has
 * ended would raise SIGPIPE.
 */
#include "profile/symbolize/llvm_symbolizer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/array.h"

#define PROGRAM "llvm-symbolizer"
#define NEWEST_VERSION 25
#define OLDEST_VERSION 9
/* The child reads the whole index of a file before its first answer. */
#define SILENCE_MS_MAX 120000
#define ANSWER_BYTES_MAX ((size_t)16 << 20)
#define INPUT_BYTES 4096

struct child {
    pid_t pid;
    int to, from; /* -1: closed */
};

struct conversation {
    const char *path;
    const uint64_t *addresses;
    size_t count, asked, answered;
    char input[INPUT_BYTES];
    size_t input_at, input_end;
    char *output;
    size_t output_length, output_capacity;
    debug_info_sink *sink;
    void *context;
    struct error *error;
};

/* --- the child --- */

static int spawn(const char *program, const char *path, const int ends[2], pid_t *pid)
{
    extern char **environ;
    char *object = NULL;
    posix_spawn_file_actions_t actions;
    if (asprintf(&object, "--obj=%s", path) < 0)
        return ENOMEM;
    char *arguments[] = {(char *)program,
                         object,
                         (char *)"--no-demangle",
                         (char *)"--inlines",
                         (char *)"--output-style=LLVM",
                         NULL};
    int result = posix_spawn_file_actions_init(&actions);
    if (result == 0) {
        result = posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
        if (result == 0)
            result = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        if (result == 0)
            result =
                posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (result == 0)
            result = posix_spawnp(pid, program, &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(object);
    return result;
}

static int start(struct child *child, const char *path, struct error *error)
{
    int to[2], from[2];
    *child = (struct child){.pid = -1, .to = -1, .from = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) != 0)
        return error_set(error, -errno, PROGRAM " cannot be started: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC) != 0) {
        int result = -errno;
        close(to[0]);
        close(to[1]);
        return error_set(error, result, PROGRAM " cannot be started: %s", strerror(-result));
    }
    const int ends[2] = {to[1], from[1]};
    char program[sizeof(PROGRAM "-99")] = PROGRAM;
    int result = spawn(program, path, ends, &child->pid);
    for (int version = NEWEST_VERSION; result == ENOENT && version >= OLDEST_VERSION; version--) {
        snprintf(program, sizeof(program), PROGRAM "-%d", version);
        result = spawn(program, path, ends, &child->pid);
    }
    close(to[1]);
    close(from[1]);
    child->to = to[0];
    child->from = from[0];
    if (result == 0)
        return 0;
    child->pid = -1;
    return error_set(error, -result, PROGRAM " cannot be started: %s%s", strerror(result),
                     result == ENOENT ? "; install llvm, or leave out --symbolizer llvm" : "");
}

/* Wait for the child, after killing it if kill_it. Return its status as of waitpid(). */
static int stop(struct child *child, bool kill_it)
{
    int status = 0;
    if (child->to >= 0)
        close(child->to);
    if (child->from >= 0)
        close(child->from);
    if (child->pid < 0)
        return 0;
    if (kill_it)
        kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* --- answers --- */

/* Read "FILE:LINE:COLUMN"; unknown parts are "??" and 0. For a function without debug information
 * the program gives the object's name as the file: leave it out. */
static void parse_place(char *text, struct source_frame *frame)
{
    char *column = strrchr(text, ':');
    if (column == NULL)
        return;
    *column = '\0';
    char *line = strrchr(text, ':');
    if (line == NULL)
        return;
    *line = '\0';
    frame->line = (uint32_t)strtoul(line + 1, NULL, 10);
    if (strcmp(text, "??") != 0 && (frame->line != 0 || strchr(text, '/') != NULL))
        frame->file = text;
}

static int take_answer(struct conversation *talk, char *text, size_t length)
{
    struct source_frame frames[SOURCE_FRAMES_MAX];
    size_t count = 0;
    char *end = text + length;
    while (text < end && count < SOURCE_FRAMES_MAX) {
        char *first = memchr(text, '\n', (size_t)(end - text));
        char *second = first == NULL ? NULL : memchr(first + 1, '\n', (size_t)(end - first - 1));
        if (second == NULL)
            break;
        *first = *second = '\0';
        frames[count] = (struct source_frame){.function = strcmp(text, "??") == 0 ? NULL : text};
        parse_place(first + 1, &frames[count++]);
        text = second + 1;
    }
    size_t index = talk->answered++;
    if (count == 0 || frames[0].function == NULL)
        return 0;
    return talk->sink(talk->context, index, frames, count);
}

/* Take all complete answers out of the output. */
static int take_answers(struct conversation *talk)
{
    char *at = talk->output, *end = talk->output + talk->output_length, *blank;
    int result = 0;
    while (result >= 0 && talk->answered < talk->count &&
           (blank = memmem(at, (size_t)(end - at), "\n\n", 2)) != NULL) {
        result = take_answer(talk, at, (size_t)(blank - at) + 1);
        at = blank + 2;
    }
    talk->output_length = (size_t)(end - at);
    memmove(talk->output, at, talk->output_length);
    return result < 0 ? result : 0;
}

/* --- the conversation --- */

static void fill_input(struct conversation *talk)
{
    char line[32];
    if (talk->input_at < talk->input_end)
        return;
    talk->input_at = talk->input_end = 0;
    while (talk->asked < talk->count) {
        int length = snprintf(line, sizeof(line), "0x%" PRIx64 "\n", talk->addresses[talk->asked]);
        if (talk->input_end + (size_t)length > sizeof(talk->input))
            break;
        memcpy(talk->input + talk->input_end, line, (size_t)length);
        talk->input_end += (size_t)length;
        talk->asked++;
    }
}

/* Send addresses. If the child has closed its input, it has ended: the end of its output shows it.
 */
static void ask(struct conversation *talk, struct child *child)
{
    ssize_t sent = send(child->to, talk->input + talk->input_at, talk->input_end - talk->input_at,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        talk->input_at += (size_t)sent;
    else if (errno == EAGAIN || errno == EINTR)
        return;
    fill_input(talk);
    if (sent < 0 || talk->input_at == talk->input_end) {
        close(child->to);
        child->to = -1;
    }
}

/* Read answers. Return 1 if there are more to come, 0 if all addresses are answered, or a negative
 * errno. */
static int listen_to(struct conversation *talk, struct child *child)
{
    if (talk->output_length > ANSWER_BYTES_MAX ||
        ARRAY_RESERVE(&talk->output, &talk->output_capacity, talk->output_length, 65536) < 0)
        return error_set(talk->error, -ENOMEM, "%s: no memory for what " PROGRAM " says",
                         talk->path);
    ssize_t got = read(child->from, talk->output + talk->output_length, 65536);
    if (got < 0 && errno == EINTR)
        return 1;
    if (got <= 0)
        return error_set(talk->error, -EPIPE, "%s: " PROGRAM " ended after %zu of %zu addresses",
                         talk->path, talk->answered, talk->count);
    talk->output_length += (size_t)got;
    int result = take_answers(talk);
    if (result < 0)
        return result;
    return talk->answered < talk->count;
}

static int converse(struct conversation *talk, struct child *child)
{
    int result = 1;
    fill_input(talk);
    while (result > 0) {
        struct pollfd ready[2] = {{.fd = child->from, .events = POLLIN},
                                  {.fd = child->to, .events = POLLOUT}};
        int count = poll(ready, 2, SILENCE_MS_MAX);
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            return error_set(talk->error, -ETIMEDOUT,
                             "%s: " PROGRAM " did not answer for %d seconds", talk->path,
                             SILENCE_MS_MAX / 1000);
        if (child->to >= 0 && ready[1].revents != 0)
            ask(talk, child);
        if (ready[0].revents != 0)
            result = listen_to(talk, child);
    }
    return result;
}

int llvm_symbolizer_find(const char *path, const uint64_t *addresses, size_t count,
                         debug_info_sink *sink, void *context, struct error *error)
{
    struct child child;
    struct conversation *talk = calloc(1, sizeof(*talk));
    if (talk == NULL)
        return error_set(error, -ENOMEM, "%s: no memory to ask " PROGRAM, path);
    talk->path = path;
    talk->addresses = addresses;
    talk->count = count;
    talk->sink = sink;
    talk->context = context;
    talk->error = error;
    int result = start(&child, path, error);
    if (result == 0 && count > 0)
        result = converse(talk, &child);
    stop(&child, true);
    free(talk->output);
    free(talk);
    return result;
}
