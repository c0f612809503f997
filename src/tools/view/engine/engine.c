/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the questions of a page that is a file, inside the page: the server's answers, compiled
 * to WebAssembly. page/saved/worker.ts calls it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/collapsed.h"
#include "tools/export/speedscope.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/export_json.h"
#include "tools/view/saved/saved_profiles.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static struct saved_profiles saved;
static char *answer; /* the last answer, or the reason of the failure */
static size_t answer_length;

/* --- answers that the server gives otherwise --- */

/* The sentences are the server's: they need dumps that the page may not have. */
static int engine_summary(struct view_profiles *profiles, const struct view_parameters *parameters,
                          FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    const struct export_dump *at = &selection.at.dump;
    if (code == 0)
        fputs(view_kept_heap_of(profiles, at->heap)->sentences[at->dump - at->heap->dumps], out);
    view_selection_clear(&selection);
    return code;
}

/* Files of other formats, as far as they need no profile that is read with filters. */
static int export_dump(struct view_profiles *profiles, const struct view_parameters *parameters,
                       const char *format, FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    struct export_dump at = {selection.at.dump.heap, view_shown(&selection, &selection.at)};
    if (code == 0 && (view_selection_is_difference(&selection) || selection.filter.count > 0))
        code = error_set(error, -EINVAL,
                         "This page is a file: here, collapsed stacks and Speedscope's files have "
                         "neither filters nor a difference. Choose JSON or SVG, or open the "
                         "profile with `heap_profile view`.");
    if (code == 0 && strcmp(format, "collapsed") == 0)
        collapsed_write(selection.at.of->profile, &at, 1, selection.view, out);
    else if (code == 0)
        speedscope_write(selection.at.of->profile, &at, 1, base_name(selection.at.of->path), out);
    view_selection_clear(&selection);
    return code;
}

static int engine_export(struct view_profiles *profiles, const struct view_parameters *parameters,
                         FILE *out, struct error *error)
{
    const char *format = view_parameter(parameters, "format");
    if (view_parameter(parameters, "group") != NULL)
        return error_set(error, -EINVAL, "a file has no groups: export one part of the graph");
    if (view_parameter(parameters, "retained") != NULL)
        return error_set(error, -EINVAL,
                         "a file has one figure of each stack, and not the two bounds of what was "
                         "retained: choose SVG");
    if (format != NULL && strcmp(format, "json") == 0)
        return export_json(profiles, parameters, out, error);
    if (format != NULL && (strcmp(format, "collapsed") == 0 || strcmp(format, "speedscope") == 0))
        return export_dump(profiles, parameters, format, out, error);
    return error_set(error, -EINVAL,
                     "This page is a file and cannot write this format. Open the profile with "
                     "`heap_profile view` for it.");
}

static const struct {
    const char *name;
    answer_function *answer;
} questions[] = {
    {"api/allocators", answer_allocators},
    {"api/budgets", answer_budgets},
    {"api/course", answer_course},
    {"api/details", answer_details},
    {"api/export", engine_export},
    {"api/functions", answer_functions},
    {"api/leaks", answer_leaks},
    {"api/memory", answer_memory},
    {"api/overview", answer_overview},
    {"api/range", answer_range},
    {"api/runs", answer_runs},
    {"api/summary", engine_summary},
    {"api/table", answer_table},
    {"api/tree", answer_flame},
};

/* --- calls of the page --- */

static int keep_error(int code, const struct error *error)
{
    free(answer);
    answer = xstrdup(error->message);
    answer_length = strlen(answer);
    return code;
}

/* Return room for what the page hands over, which the next call takes. */
void *EXPORT(engine_room)(size_t bytes)
{
    return xmalloc(bytes + 1);
}

const char *EXPORT(engine_text)(void)
{
    return answer;
}

size_t EXPORT(engine_length)(void)
{
    return answer_length;
}

/* Read the block. Return 0 or a negative errno; then the text is the reason. */
int EXPORT(engine_open)(void *bytes, size_t length)
{
    struct error error = {0};
    int code = saved_profiles_read(&saved, bytes, length, &error);
    free(bytes);
    return code < 0 ? keep_error(code, &error) : 0;
}

static int find_answer(const char *name, const struct view_parameters *parameters, FILE *out,
                       struct error *error)
{
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        if (strcmp(name, questions[i].name) == 0)
            return questions[i].answer(&saved.profiles, parameters, out, error);
    return error_set(error, -ENOENT,
                     "This page is a file: it does not contain source text, SQL tables or the "
                     "trace. Open the profile with `heap_profile view` for these.");
}

/* Answer a question: its name, then names and values of parameters, each with a zero byte behind
 * it. Return 0 or a negative errno; the text is the answer or the reason. */
int EXPORT(engine_answer)(char *question, size_t length)
{
    struct view_parameters parameters = {.count = 0};
    struct error error = {0};
    const char *end = question + length;
    question[length] = '\0';
    for (const char *at = question + strlen(question) + 1; at < end;) {
        const char *value = at + strlen(at) + 1;
        if (parameters.count == VIEW_PARAMETERS_MAX || value > end) {
            free(question);
            error_set(&error, -EINVAL, "the question has too many parameters");
            return keep_error(-EINVAL, &error);
        }
        parameters.items[parameters.count++] = (struct view_parameter){at, value};
        at = value + strlen(value) + 1;
    }
    free(answer);
    FILE *out = xopen_memstream(&answer, &answer_length);
    int code = find_answer(question, &parameters, out, &error);
    xclose_memstream(out);
    free(question);
    return code < 0 ? keep_error(code, &error) : 0;
}
