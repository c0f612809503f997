/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the recordings, and answers the page by running heap_profile. */
#include "tools/cli/view/recordings.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/view/self_run.h"

/* A command that only prints ends soon; a session that is asked to end writes its profile first. */
#define PRINT_PATIENCE_S 10u
#define END_PATIENCE_S 60u

static const char name[] = "heap_profile";

void recordings_begin(struct recordings *recordings)
{
    *recordings = (struct recordings){0};
    pthread_mutex_init(&recordings->lock, NULL);
}

void recordings_end(struct recordings *recordings)
{
    for (size_t i = 0; i < recordings->count; i++) {
        recording_end(recordings->items[i]);
        recording_let_go(recordings->items[i]);
    }
    for (size_t i = 0; i < recordings->count; i++)
        recording_free(recordings->items[i]);
    pthread_mutex_destroy(&recordings->lock);
}

/* --- the list --- */

/* Write what runs on this machine; null: nothing, unless there is an error. */
static void write_status(struct json_writer *json)
{
    static const char *const arguments[] = {name, "status", "--json", NULL};
    struct self_output output;
    struct error error = {0};
    int code = self_run(arguments, PRINT_PATIENCE_S, &output, &error);
    bool has_status = code == 0 && output.status == 0 && output.text != NULL;
    if (has_status)
        json_raw(json, "status", output.text, strlen(output.text));
    else
        json_null(json, "status");
    json_string(json, "status_error", code < 0 ? error.message : NULL);
    self_output_clear(&output);
}

void recordings_list(struct recordings *recordings, FILE *out)
{
    char directory[PATH_MAX];
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "working_directory", getcwd(directory, sizeof(directory)));
    json_array(&json, "recordings");
    pthread_mutex_lock(&recordings->lock);
    for (size_t i = 0; i < recordings->count; i++)
        recording_write(recordings->items[i], &json);
    pthread_mutex_unlock(&recordings->lock);
    json_end_array(&json);
    write_status(&json);
    json_end_object(&json);
}

/* --- begin and end --- */

/* Make room for one more: forget the oldest that has ended. */
static int recordings_make_room(struct recordings *recordings, struct error *error)
{
    size_t running = 0, oldest = recordings->count;
    for (size_t i = recordings->count; i-- > 0;) {
        if (recording_runs(recordings->items[i]))
            running++;
        else
            oldest = i;
    }
    if (running >= RECORDINGS_RUNNING_MAX)
        return error_set(error, -EINVAL,
                         "%zu recordings of this page run already: stop one of them", running);
    if (recordings->count < RECORDINGS_MAX)
        return 0;
    recording_free(recordings->items[oldest]);
    recordings->count--;
    memmove(&recordings->items[oldest], &recordings->items[oldest + 1],
            (recordings->count - oldest) * sizeof(recordings->items[0]));
    return 0;
}

static int recordings_add(struct recordings *recordings,
                          const struct recording_arguments *arguments, FILE *out,
                          struct error *error)
{
    int code = recordings_make_room(recordings, error);
    if (code < 0)
        return code;
    struct recording *recording = recording_start(recordings->last_id + 1, arguments, error);
    if (recording == NULL)
        return error->code;
    recordings->last_id++;
    recordings->items[recordings->count++] = recording;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "id", recording_id(recording));
    json_string(&json, "directory", recording_directory(recording));
    json_end_object(&json);
    return 0;
}

int recordings_start(struct recordings *recordings, const struct json_value *root, FILE *out,
                     struct error *error)
{
    struct recording_arguments arguments;
    int code = recording_arguments_take(&arguments, root, error);
    if (code < 0)
        return code;
    if (arguments.is_host && !recording_arguments_have_command(&arguments))
        return error_set(error, -EINVAL, "which command? It stands after --");
    pthread_mutex_lock(&recordings->lock);
    code = recordings_add(recordings, &arguments, out, error);
    pthread_mutex_unlock(&recordings->lock);
    return code;
}

/* Take a number of the request. */
static int take_id(const struct json_value *root, const char *key, uint64_t *id,
                   struct error *error)
{
    const struct json_value *value = json_member(root, key);
    bool is_id = value != NULL && value->kind == JSON_NUMBER && value->number >= 0 &&
                 value->number <= (double)(UINT64_C(1) << 53) &&
                 value->number == (double)(uint64_t)value->number;
    if (!is_id)
        return error_set(error, -EINVAL, "the request has no number \"%s\"", key);
    *id = (uint64_t)value->number;
    return 0;
}

static void write_message(FILE *out, const char *message)
{
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "message", message);
    json_end_object(&json);
}

int recordings_finish(struct recordings *recordings, const struct json_value *root, FILE *out,
                      struct error *error)
{
    uint64_t id = 0;
    int code = take_id(root, "recording", &id, error);
    if (code < 0)
        return code;
    code = -ENOENT;
    pthread_mutex_lock(&recordings->lock);
    for (size_t i = 0; i < recordings->count && code < 0; i++) {
        if (recording_id(recordings->items[i]) != id || !recording_runs(recordings->items[i]))
            continue;
        recording_end(recordings->items[i]);
        code = 0;
    }
    pthread_mutex_unlock(&recordings->lock);
    if (code < 0)
        return error_set(error, code, "no recording %" PRIu64 " of this page runs", id);
    write_message(out, "asked to end");
    return 0;
}

static int ask_session(const char *verb, const struct json_value *root, FILE *out,
                       struct error *error)
{
    uint64_t id = 0;
    char number[24];
    struct self_output output = {0};
    int code = take_id(root, "session", &id, error);
    if (code < 0)
        return code;
    snprintf(number, sizeof(number), "%" PRIu64, id);
    const char *const arguments[] = {name, verb, "--session", number, NULL};
    code = self_run(arguments, END_PATIENCE_S, &output, error);
    if (code == 0 && output.status != 0)
        code = self_output_error(&output, -ENOENT, error);
    if (code == 0 && output.text != NULL) {
        output.text[strcspn(output.text, "\n")] = '\0';
        write_message(out, output.text);
    }
    self_output_clear(&output);
    return code;
}

int recordings_stop_session(struct recordings *recordings, const struct json_value *root, FILE *out,
                            struct error *error)
{
    (void)recordings;
    return ask_session("stop", root, out, error);
}

int recordings_snapshot_session(struct recordings *recordings, const struct json_value *root,
                                FILE *out, struct error *error)
{
    (void)recordings;
    return ask_session("snapshot", root, out, error);
}

/* --- what a command line means --- */

int recordings_configure(struct recordings *recordings, const struct json_value *root, FILE *out,
                         struct error *error)
{
    (void)recordings;
    struct recording_arguments arguments;
    struct recording_command command;
    struct self_output output = {0};
    int code = recording_arguments_take(&arguments, root, error);
    if (code < 0)
        return code;
    recording_arguments_make(&arguments, "--print-config", NULL, &command);
    code = self_run(command.words, PRINT_PATIENCE_S, &output, error);
    if (code == 0 && output.status != 0)
        code = self_output_error(&output, -EINVAL, error);
    if (code == 0) {
        struct json_writer json = json_begin(out);
        json_object(&json, NULL);
        json_string(&json, "text", output.text);
        json_string(&json, "warnings", output.errors);
        json_end_object(&json);
    }
    self_output_clear(&output);
    return code;
}

int recordings_examine(struct recordings *recordings, const struct json_value *root, FILE *out,
                       struct error *error)
{
    (void)recordings;
    struct recording_arguments arguments;
    struct recording_command command;
    struct self_output output = {0};
    int code = recording_arguments_take(&arguments, root, error);
    if (code == 0 && arguments.is_host)
        code = error_set(error, -EINVAL, "doctor takes -p PID or -- COMMAND");
    if (code < 0)
        return code;
    recording_arguments_make(&arguments, "doctor", NULL, &command);
    code = self_run(command.words, PRINT_PATIENCE_S, &output, error);
    if (code == 0 && output.status > 1)
        code = self_output_error(&output, -EINVAL, error);
    if (code == 0) {
        struct json_writer json = json_begin(out);
        json_object(&json, NULL);
        json_bool(&json, "works", output.status == 0);
        json_string(&json, "text", output.text);
        json_end_object(&json);
    }
    self_output_clear(&output);
    return code;
}
