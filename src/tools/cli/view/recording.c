/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a recording: it starts heap_profile, reads its output, and waits for its end. */
#include "tools/cli/view/recording.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/files/output_directory.h"
#include "tools/cli/record/dump_schedule.h"
#include "tools/cli/view/self_run.h"
#include "util/clock.h"
#include "util/xmalloc.h"

#define STEP_MS 250
#define OUTPUT_BYTES_MAX (32u << 10)
/* A large profile takes seconds to be written. */
#define END_PATIENCE_MS 20000u

/* The end of what a process printed, with a zero byte. */
struct tail {
    char bytes[OUTPUT_BYTES_MAX];
    size_t length;
    bool is_cut;
};

struct recording {
    uint64_t id;
    char **words; /* of the command line, NULL at the end */
    char directory[PATH_MAX];
    bool is_own_directory, takes_dumps, is_host;
    uint64_t start_ms;
    pthread_t thread;
    int reader, writer; /* of its output; -1: closed. The thread's */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t is_started;
    pid_t pid;            /* 0: not started, or it has ended and has been waited for */
    pid_t had_pid;        /* the same, kept */
    struct error failure; /* it could not be started */
    bool must_end;
    uint64_t end_ms; /* 0: it runs */
    int wait_status;
    struct tail output;
};

uint64_t recording_id(const struct recording *recording)
{
    return recording->id;
}

const char *recording_directory(const struct recording *recording)
{
    return recording->directory;
}

/* --- the thread --- */

/* Append to the tail. If it is full, drop its older half. */
static void recording_append(struct tail *tail, const char *bytes, size_t length)
{
    size_t room = sizeof(tail->bytes) - 1 - tail->length;
    if (length > room) {
        size_t kept = sizeof(tail->bytes) / 2;
        kept = kept < tail->length ? kept : tail->length;
        memmove(tail->bytes, tail->bytes + tail->length - kept, kept);
        tail->length = kept;
        tail->is_cut = true;
    }
    memcpy(tail->bytes + tail->length, bytes, length);
    for (size_t i = 0; i < length; i++)
        if (bytes[i] == '\0')
            tail->bytes[tail->length + i] = ' ';
    tail->length += length;
    tail->bytes[tail->length] = '\0';
}

/* Read what is there. Whoever inherited the pipe may keep it open after the end of heap_profile. */
static void read_output(struct recording *recording)
{
    char bytes[4096];
    ssize_t got = read(recording->reader, bytes, sizeof(bytes));
    if (got > 0) {
        pthread_mutex_lock(&recording->lock);
        recording_append(&recording->output, bytes, (size_t)got);
        pthread_mutex_unlock(&recording->lock);
    } else if (got == 0) {
        close(recording->reader);
        recording->reader = -1;
    }
}

static bool has_file(const struct recording *recording, const char *name)
{
    char path[PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof(path), "%s/%s", recording->directory, name);
    return stat(path, &status) == 0 && status.st_size > 0;
}

static bool has_trace(const struct recording *recording)
{
    return has_file(recording, "raw-trace") || has_file(recording, "symbolized-trace");
}

/* Return whether a process has prepared for the signal that asks for a dump: without a handler it
 * would be killed. */
static bool handles_dumps(pid_t pid)
{
    char path[32], line[128];
    unsigned long long handled = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "SigCgt:", 7) == 0)
            handled = strtoull(line + 7, NULL, 16);
    if (status != NULL)
        fclose(status);
    return (handled & 1ULL << (SIGUSR1 - 1)) != 0;
}

/* Take a dump if one is due. Until the first one with a process is written, stay at the schedule's
 * beginning. Called with the lock, so that the pid is valid. */
static void take_dump(const struct recording *recording, struct dump_schedule *schedule)
{
    if (!recording->takes_dumps || !dump_schedule_is_due(schedule, clock_read_ms(CLOCK_MONOTONIC)))
        return;
    bool handles = handles_dumps(recording->pid);
    if (handles)
        kill(recording->pid, SIGUSR1);
    if (!handles || !has_trace(recording))
        *schedule = (struct dump_schedule){0};
}

/* Remove the directory that we made if there is no trace in it. */
static void remove_empty(const struct recording *recording)
{
    char path[PATH_MAX + 32];
    if (!recording->is_own_directory || has_trace(recording))
        return;
    snprintf(path, sizeof(path), "%s/raw-trace", recording->directory);
    unlink(path);
    rmdir(recording->directory);
}

/* Note the end of heap_profile. Called with the lock. */
static void note_end(struct recording *recording)
{
    if (waitpid(recording->pid, &recording->wait_status, WNOHANG) != recording->pid)
        return;
    recording->pid = 0;
    recording->end_ms = clock_read_ms(CLOCK_MONOTONIC);
    remove_empty(recording);
}

/* Return whether there is nothing more to do. */
static bool is_over(const struct recording *recording, uint64_t *must_end_ms)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (recording->pid == 0 && (recording->reader < 0 || recording->must_end))
        return true;
    if (recording->must_end && *must_end_ms == 0)
        *must_end_ms = now_ms;
    return recording->must_end && now_ms - *must_end_ms > END_PATIENCE_MS;
}

static void recording_follow(struct recording *recording)
{
    struct dump_schedule schedule = {0};
    uint64_t must_end_ms = 0;
    bool over = false;
    while (!over) {
        struct pollfd output = {recording->reader, POLLIN, 0};
        if (poll(&output, 1, STEP_MS) > 0)
            read_output(recording);
        pthread_mutex_lock(&recording->lock);
        if (recording->pid > 0)
            note_end(recording);
        if (recording->pid > 0)
            take_dump(recording, &schedule);
        over = is_over(recording, &must_end_ms);
        pthread_mutex_unlock(&recording->lock);
    }
}

/* heap_profile is started here, because it ends with the thread that started it. */
static void *recording_run(void *context)
{
    struct recording *recording = context;
    struct error failure = {0};
    pid_t pid = self_start((const char *const *)recording->words, recording->writer,
                           recording->writer, &failure);
    close(recording->writer);
    pthread_mutex_lock(&recording->lock);
    recording->pid = recording->had_pid = pid > 0 ? pid : 0;
    recording->failure = failure;
    pthread_cond_signal(&recording->is_started);
    pthread_mutex_unlock(&recording->lock);
    if (pid > 0)
        recording_follow(recording);
    if (recording->reader >= 0)
        close(recording->reader);
    return NULL;
}

/* --- begin and end --- */

/* Keep the whole path of a directory. */
static int take_directory(struct recording *recording, const char *wanted, struct error *error)
{
    char here[PATH_MAX] = "";
    if (*wanted != '/' && getcwd(here, sizeof(here)) == NULL)
        return error_set(error, -errno, "cannot find the working directory: %s", strerror(errno));
    int length = snprintf(recording->directory, sizeof(recording->directory), "%s%s%s", here,
                          *wanted != '/' ? "/" : "", wanted);
    if (length < 0 || (size_t)length >= sizeof(recording->directory))
        return error_set(error, -EINVAL, "the name of the directory is too long");
    return 0;
}

static int choose_directory(struct recording *recording, const char *wanted, struct error *error)
{
    if (*wanted != '\0')
        return take_directory(recording, wanted, error);
    int fd = output_make_temporary(recording->directory, error);
    if (fd < 0)
        return fd;
    close(fd);
    recording->is_own_directory = true;
    return 0;
}

/* Keep the command line, with the directory. */
static void keep_words(struct recording *recording, const struct recording_arguments *arguments)
{
    struct recording_command command;
    recording_arguments_make(arguments, "-o", recording->directory, &command);
    recording->words = xcalloc(command.count + 1, sizeof(*recording->words));
    for (size_t i = 0; i < command.count; i++)
        recording->words[i] = xstrdup(command.words[i]);
}

static void free_parts(struct recording *recording)
{
    for (char **word = recording->words; word != NULL && *word != NULL; word++)
        free(*word);
    free(recording->words);
    pthread_mutex_destroy(&recording->lock);
    pthread_cond_destroy(&recording->is_started);
    free(recording);
}

static int start_thread(struct recording *recording, struct error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(error, -errno, "cannot make a pipe: %s", strerror(errno));
    recording->reader = ends[0];
    recording->writer = ends[1];
    recording->start_ms = clock_read_ms(CLOCK_MONOTONIC);
    int code = pthread_create(&recording->thread, NULL, recording_run, recording);
    if (code != 0) {
        close(ends[0]);
        close(ends[1]);
        return error_set(error, -code, "cannot start a thread: %s", strerror(code));
    }
    pthread_mutex_lock(&recording->lock);
    while (recording->pid == 0 && recording->had_pid == 0 && recording->failure.code == 0)
        pthread_cond_wait(&recording->is_started, &recording->lock);
    *error = recording->failure;
    pthread_mutex_unlock(&recording->lock);
    if (error->code < 0)
        pthread_join(recording->thread, NULL);
    return error->code;
}

struct recording *recording_start(uint64_t id, const struct recording_arguments *arguments,
                                  struct error *error)
{
    struct recording *recording = xcalloc(1, sizeof(*recording));
    recording->id = id;
    recording->is_host = arguments->is_host;
    recording->takes_dumps = !recording_arguments_have_dumps(arguments);
    pthread_mutex_init(&recording->lock, NULL);
    pthread_cond_init(&recording->is_started, NULL);
    int code = choose_directory(recording, arguments->directory, error);
    if (code == 0) {
        keep_words(recording, arguments);
        code = start_thread(recording, error);
    }
    if (code == 0)
        return recording;
    remove_empty(recording);
    free_parts(recording);
    return NULL;
}

bool recording_runs(struct recording *recording)
{
    pthread_mutex_lock(&recording->lock);
    bool runs = recording->pid > 0;
    pthread_mutex_unlock(&recording->lock);
    return runs;
}

void recording_end(struct recording *recording)
{
    pthread_mutex_lock(&recording->lock);
    if (recording->pid > 0)
        kill(recording->pid, SIGTERM);
    pthread_mutex_unlock(&recording->lock);
}

void recording_let_go(struct recording *recording)
{
    pthread_mutex_lock(&recording->lock);
    recording->must_end = true;
    pthread_mutex_unlock(&recording->lock);
}

void recording_free(struct recording *recording)
{
    recording_let_go(recording);
    pthread_join(recording->thread, NULL);
    free_parts(recording);
}

/* --- as JSON --- */

static void write_end(const struct recording *recording, struct json_writer *json)
{
    bool has_ended = recording->pid == 0;
    json_bool(json, "running", !has_ended);
    if (has_ended)
        json_signed(json, "exit_code", self_exit_code(recording->wait_status));
    else
        json_null(json, "exit_code");
    uint64_t until_ms = has_ended ? recording->end_ms : clock_read_ms(CLOCK_MONOTONIC);
    json_unsigned(json, "elapsed_ms", until_ms - recording->start_ms);
}

void recording_write(struct recording *recording, struct json_writer *json)
{
    pthread_mutex_lock(&recording->lock);
    json_object(json, NULL);
    json_unsigned(json, "id", recording->id);
    json_signed(json, "pid", recording->had_pid);
    json_array(json, "arguments");
    for (char **word = recording->words; *word != NULL; word++)
        json_string(json, NULL, *word);
    json_end_array(json);
    json_bool(json, "is_host", recording->is_host);
    json_string(json, "directory", recording->directory);
    json_bool(json, "has_trace", has_trace(recording));
    write_end(recording, json);
    json_string(json, "output", recording->output.bytes);
    json_bool(json, "is_cut", recording->output.is_cut);
    json_end_object(json);
    pthread_mutex_unlock(&recording->lock);
}
