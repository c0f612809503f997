/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a table: its rows in the wanted order, a page of them at a time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/estimates.h"
#include "util/json_writer.h"
#include "view/answers.h"
#include "view/table.h"

#define ROWS_DEFAULT 500u
#define ROWS_MAX 20000u

struct question {
    struct view_profiles *profiles;
    struct view_selection selection;
    struct view_leaves leaves;
    struct table table;
    enum view_dimension by;
    bool by_self;
    const char *search;
    uint64_t first, limit;
};

/* --- figures --- */

static void write_figure(struct json_writer *json, const struct question *question, const char *key,
                         const struct flame_sum *sum, bool counts)
{
    const struct view_selection *selection = &question->selection;
    double value =
        counts ? sum->gained.count - sum->lost.count : sum->gained.bytes - sum->lost.bytes;
    struct profile_interval interval;
    if (view_selection_is_difference(selection)) {
        const struct change_parts parts = {sum->gained, sum->lost};
        const struct change change =
            change_of(&parts, counts, &question->leaves.sampling, NULL, false);
        interval = change.uncertain ? (struct profile_interval){NAN, NAN} : change.interval;
    } else {
        interval = estimate_interval(&sum->gained, counts, selection->at.dump.heap,
                                     selection->at.dump.dump);
    }
    json_object(json, key);
    json_number(json, "value", value);
    json_number(json, "low", interval.low);
    json_number(json, "high", interval.high);
    json_end_object(json);
}

/* Write the value with which only= keeps what a row has. */
static void write_part(struct json_writer *json, const struct question *question,
                       const struct table_row *row, const struct function_names *names)
{
    char *text = NULL;
    int code = row->function != STACK_NONE ? asprintf(&text, "%s@%s", names->full_name, names->path)
               : question->by == VIEW_THREAD ? asprintf(&text, "%d", row->tid)
                                             : asprintf(&text, "%s", row->label);
    json_string(json, "part", code < 0 ? NULL : text);
    free(text);
}

static void write_row(struct json_writer *json, const struct question *question,
                      const struct table_row *row)
{
    bool has_self = question->by <= VIEW_FILE && question->by != VIEW_HOLDER;
    struct function_names names;
    json_line(json);
    json_object(json, NULL);
    if (row->function != STACK_NONE) {
        functions_name(&question->profiles->functions, row->function, &names);
        json_unsigned(json, "function", row->function);
        json_string(json, "key", names.name);
        json_string(json, "module", names.module);
        json_string(json, "file", names.file);
        json_unsigned(json, "line", names.line);
    } else {
        json_string(json, "key", row->label);
        if (question->by == VIEW_THREAD)
            json_signed(json, "tid", row->tid);
    }
    write_part(json, question, row, &names);
    write_figure(json, question, "bytes", &row->total, false);
    write_figure(json, question, "count", &row->total, true);
    if (has_self) {
        write_figure(json, question, "self_bytes", &row->self, false);
        write_figure(json, question, "self_count", &row->self, true);
    }
    json_end_object(json);
}

/* --- order and search --- */

static int compare_rows(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct table_row *left = left_pointer, *right = right_pointer;
    const struct question *question = context;
    double one = question->by_self ? left->self.width : left->total.width,
           other = question->by_self ? right->self.width : right->total.width;
    if (one != other)
        return one > other ? -1 : 1;
    /* Rows were numbered in the order of the profile. */
    return left->function > right->function ? 1 : -(left->function < right->function);
}

static bool is_found(const struct question *question, const struct table_row *row)
{
    struct function_names names = {0};
    const char *text = row->label;
    if (question->search == NULL || *question->search == '\0')
        return true;
    if (row->function != STACK_NONE) {
        functions_name(&question->profiles->functions, row->function, &names);
        if (strcasestr(names.module, question->search) != NULL)
            return true;
        text = names.full_name;
    }
    return strcasestr(text, question->search) != NULL;
}

static void keep_found(struct question *question)
{
    struct table *table = &question->table;
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (is_found(question, &table->rows[i]))
            table->rows[kept++] = table->rows[i];
    table->count = kept;
}

/* --- */

static int parse(struct question *question, const struct view_parameters *parameters,
                 struct error *error)
{
    const char *by = view_parameter(parameters, "by"), *order = view_parameter(parameters, "order");
    question->by = by == NULL ? VIEW_FUNCTION : view_dimension_of(by, strlen(by));
    if (question->by == VIEW_DIMENSIONS || question->by >= VIEW_SIZE)
        return error_set(error, -EINVAL, "there is no table by '%.40s'", by);
    if (order != NULL && strcmp(order, "self") != 0 && strcmp(order, "total") != 0)
        return error_set(error, -EINVAL, "a table is ordered by self or total, not '%.40s'", order);
    question->by_self = order == NULL || strcmp(order, "self") == 0;
    question->search = view_parameter(parameters, "search");
    const struct view_range first = {0, UINT32_MAX, 0}, limit = {1, ROWS_MAX, ROWS_DEFAULT};
    int code = view_parameter_number(parameters, "offset", first, &question->first, error);
    return code < 0 ? code
                    : view_parameter_number(parameters, "limit", limit, &question->limit, error);
}

static int make(struct question *question, struct error *error)
{
    int code = view_leaves_make(&question->leaves, question->profiles, &question->selection);
    if (code == 0)
        code = table_make(&question->table, question->profiles, &question->selection,
                          &question->leaves, question->by);
    if (code == -ENOTSUP)
        return error_set(error, -EINVAL,
                         "there is no table by %s of a difference, and none by "
                         "thread at the peak",
                         view_dimension_names[question->by]);
    return code < 0 ? error_set(error, code, "not enough memory for the table") : 0;
}

static void write_answer(struct question *question, FILE *out)
{
    struct table *table = &question->table;
    struct json_writer json = json_begin(out);
    keep_found(question);
    if (table->count > 1)
        qsort_r(table->rows, table->count, sizeof(*table->rows), compare_rows, question);
    json_object(&json, NULL);
    write_figure(&json, question, "bytes", &question->leaves.total, false);
    write_figure(&json, question, "count", &question->leaves.total, true);
    json_bool(&json, "unknown", question->leaves.unknown);
    json_unsigned(&json, "rows", table->count);
    json_array(&json, "row");
    for (size_t i = question->first; i < table->count && i - question->first < question->limit; i++)
        write_row(&json, question, &table->rows[i]);
    json_end_array(&json);
    json_end_object(&json);
}

int answer_table(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error)
{
    struct question question = {.profiles = profiles};
    int code = parse(&question, parameters, error);
    if (code == 0)
        code = view_selection_parse(&question.selection, profiles, parameters, error);
    if (code == 0)
        code = make(&question, error);
    if (code == 0)
        write_answer(&question, out);
    view_selection_clear(&question.selection);
    view_leaves_free(&question.leaves);
    table_free(&question.table);
    return code;
}
