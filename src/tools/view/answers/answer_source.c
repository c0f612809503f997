/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with the source file of a function, and what each of its lines allocates itself and with
 * all that it calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/compare/estimates.h"
#include "profile/tree_sums.h"
#include "tools/view/answers/answers.h"
#include "tools/view/model/limits.h"
#include "util/json_writer.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

/* Longer files are programs' data rather than their source. */
#define FILE_BYTES_MAX ((size_t)8 << 20)
#define LINES_MAX 200000u

struct line {
    struct profile_estimate self, total;
};

struct source {
    const struct view_profile *of;
    const struct view_selection *selection;
    const char *file;
    struct line *lines; /* by number; 0: unknown */
};

/* --- figures --- */

/* Return the line of a frame in the file; LINES_MAX: it is in another one. */
static uint32_t line_of(const struct source *source, uint32_t frame)
{
    const struct profile_frame *of = &source->of->profile->frames[frame];
    return of->line < LINES_MAX && strcmp(of->source_file, source->file) == 0 ? of->line
                                                                              : LINES_MAX;
}

static void add_figure(void *sum, const void *more)
{
    profile_estimate_add(sum, more);
}

/* Add up the stacks that the filters leave. */
static void add_up(struct source *source, const struct view_profiles *profiles,
                   const struct callsite_nodes *nodes)
{
    const struct profile_dump *dump = view_shown(source->selection, &source->selection->at);
    const struct profile_callsite *callsites = source->of->profile->callsites;
    struct profile_estimate *figures = xcalloc(nodes->count + 1, sizeof(*figures));
    uint32_t *lines = xcalloc(nodes->count + 1, sizeof(*lines));
    for (size_t i = 0; i < nodes->count; i++)
        lines[i] = line_of(source, callsites[nodes->nodes[i].callsite].frame);
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t callsite = dump->samples[i]->callsite, node = nodes->places[callsite] - 1;
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        const struct profile_estimate figure = estimate_of_view(&values, source->selection->view);
        if (view_profiles_node(profiles, &source->selection->filter, source->of, callsite) ==
            STACK_NONE)
            continue;
        profile_estimate_add(&source->lines[lines[node]].self, &figure);
        profile_estimate_add(&figures[node], &figure);
    }
    const struct tree_sums sums = {
        .count = nodes->count,
        .row_count = LINES_MAX + 1,
        .parents = TREE_COLUMN(nodes->nodes, parent),
        .rows = lines,
        .values = figures,
        .value_bytes = sizeof(*figures),
        .totals = TREE_COLUMN(source->lines, total),
        .add = add_figure,
    };
    xmalloc_code(tree_sums_add(&sums));
    free(figures);
    free(lines);
}

static void make_lines(struct source *source, const struct view_profiles *profiles)
{
    struct callsite_nodes nodes = {0};
    source->lines = xcalloc(LINES_MAX + 1, sizeof(*source->lines));
    xmalloc_code(callsite_nodes_begin(&nodes, source->of->profile));
    callsite_nodes_mark_dump(&nodes, source->selection->at.dump.dump);
    xmalloc_code(callsite_nodes_list(&nodes));
    add_up(source, profiles, &nodes);
    callsite_nodes_free(&nodes);
}

/* --- the file --- */

/* Return the file's text, malloc'd. On failure return NULL, with the reason in *why. */
static char *read_file(const char *path, const char **why)
{
    struct stat status;
    char *text = NULL;
    int fd = regular_file_open(path, &status);
    if (fd < 0) {
        *why = fd == -EINVAL ? "this is no regular file" : strerror(-fd);
        return NULL;
    }
    if ((uint64_t)status.st_size > FILE_BYTES_MAX)
        *why = "the file is too large to be a source";
    else
        text = xmalloc((size_t)status.st_size + 1);
    ssize_t length = text == NULL ? -1 : pread(fd, text, (size_t)status.st_size, 0);
    close(fd);
    if (length < 0) {
        *why = **why != '\0' ? *why : "the file cannot be read";
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

static void write_estimate(struct json_writer *json, const char *key,
                           const struct profile_estimate *figure,
                           const struct view_selection *selection)
{
    bool counts = export_view_counts_calls(selection->view);
    struct profile_interval interval = view_limits(figure, counts, &selection->at.dump);
    if (figure->bytes == 0 && figure->count == 0) {
        json_null(json, key);
        return;
    }
    json_object(json, key);
    json_number(json, "value", counts ? figure->count : figure->bytes);
    json_number(json, "low", interval.low);
    json_number(json, "high", interval.high);
    json_end_object(json);
}

static void write_line(struct json_writer *json, const struct source *source, size_t number,
                       const char *text)
{
    json_line(json);
    json_object(json, NULL);
    json_unsigned(json, "n", number);
    json_string(json, "text", text);
    if (number < LINES_MAX) {
        write_estimate(json, "self", &source->lines[number].self, source->selection);
        write_estimate(json, "total", &source->lines[number].total, source->selection);
    }
    json_end_object(json);
}

static void write_lines(struct json_writer *json, const struct source *source, char *text)
{
    size_t number = 1;
    json_array(json, "lines");
    for (char *line = text; line != NULL && *line != '\0'; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        write_line(json, source, number, line);
        line = end;
    }
    json_end_array(json);
}

static int write_answer(const struct source *source, uint32_t line, FILE *out)
{
    const char *why = "";
    char *text = *source->file == '\0' ? NULL : read_file(source->file, &why);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "file", source->file);
    json_unsigned(&json, "line", line);
    json_bool(&json, "found", text != NULL);
    json_string(&json, "why",
                text != NULL            ? ""
                : *source->file == '\0' ? "the profile does not have the function's source file: "
                                          "its module was built without debug information, or "
                                          "this was not found"
                                        : why);
    if (text != NULL)
        write_lines(&json, source, text);
    json_end_object(&json);
    free(text);
    return 0;
}

/* --- */

static int answer_source_answer(struct view_profiles *profiles,
                                const struct view_selection *selection,
                                const struct view_parameters *parameters, FILE *out,
                                struct error *error)
{
    const char *named = view_parameter(parameters, "function");
    struct function_names names;
    uint32_t function;
    if (named == NULL)
        return error_set(error, -ENOENT, "the question names no function");
    int code = functions_find(&profiles->functions, named, &function, error);
    if (code < 0)
        return code;
    if (view_selection_is_difference(selection))
        return error_set(error, -EINVAL,
                         "the source is shown with the figures of one dump, not of "
                         "a difference");
    functions_name(&profiles->functions, function, &names);
    struct source source = {.of = selection->at.of, .selection = selection, .file = names.file};
    make_lines(&source, profiles);
    code = write_answer(&source, names.line, out);
    free(source.lines);
    return code;
}

int answer_source(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0)
        code = answer_source_answer(profiles, &selection, parameters, out, error);
    view_selection_clear(&selection);
    return code;
}
