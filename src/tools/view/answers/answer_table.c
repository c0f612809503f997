/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a table: its rows in the wanted order, a page of them at a time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/answers/answers.h"
#include "tools/view/answers/course.h"
#include "tools/view/model/limits.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define ROWS_DEFAULT 500u
#define ROWS_MAX 20000u

/* Self and total are what the view ranks by; in a difference, how much stacks have changed. */
enum order {
    ORDER_SELF,
    ORDER_TOTAL,
    ORDER_BYTES,
    ORDER_COUNT,
    ORDER_SELF_BYTES,
    ORDER_SELF_COUNT,
    ORDER_BEFORE, /* of a difference: with callees, in the unit of the view */
    ORDER_AFTER,
    ORDER_PERCENT, /* of the change, of before */
    ORDER_NAME,    /* of sizes and lifetimes, the class */
    ORDERS,
};
static const char *const order_names[ORDERS] = {"self",       "total",      "bytes",  "count",
                                                "self_bytes", "self_count", "before", "after",
                                                "percent",    "name"};

struct question {
    struct view_profiles *profiles;
    struct view_selection selection;
    struct view_leaves leaves;
    struct table table;
    enum view_dimension by;
    enum order order;
    bool ascending;
    const char *search;
    uint64_t first, limit;
    struct course course;
    uint64_t course_dumps; /* of how many dumps rows have their course; 0: they have none */
};

/* --- figures --- */

static struct estimate_shown shown_of(const struct question *question, const struct flame_sum *sum,
                                      bool counts, bool of_heap)
{
    const struct export_dump *at = &question->selection.at.dump;
    if (view_selection_is_difference(&question->selection)) {
        const struct change change = view_leaves_change(&question->leaves, sum, counts, of_heap);
        return (struct estimate_shown){change.value,
                                       view_leaves_limits(&question->leaves, &change)};
    }
    if (view_selection_is_retained(&question->selection))
        return view_retained_shown(&question->selection, sum, counts, of_heap);
    if (of_heap)
        return view_total(at, question->selection.view, counts);
    return (struct estimate_shown){counts ? sum->gained.count : sum->gained.bytes,
                                   view_limits(&sum->gained, counts, at)};
}

/* Write a figure. of_heap: the sum is that of the whole heap. */
static void write_figure(struct json_writer *json, const struct question *question, const char *key,
                         const struct flame_sum *sum, bool counts, bool of_heap)
{
    const struct estimate_shown shown = shown_of(question, sum, counts, of_heap);
    json_object(json, key);
    json_number(json, "value", shown.value);
    json_number(json, "low", shown.interval.low);
    json_number(json, "high", shown.interval.high);
    if (view_selection_is_retained(&question->selection))
        json_number(json, "least", counts ? sum->lost.count : sum->lost.bytes);
    json_end_object(json);
}

/* Write the value with which only= keeps what a row has; null if nothing does. */
static void write_part(struct json_writer *json, enum view_dimension by,
                       const struct table_row *row, const struct function_names *names)
{
    bool is_thread = by == VIEW_THREAD;
    /* Threads of two processes are compared by name. */
    bool is_part =
        is_thread ? row->number != 0 || *row->label == '\0' : row->number != VIEW_CLASS_UNKNOWN;
    char *text = row->function != STACK_NONE ? xasprintf("%s@%s", names->full_name, names->path)
                 : row->number == VIEW_CLASS_NOTHING_FREED ? xstrdup("none")
                 : is_thread || row->label == NULL         ? xasprintf("%jd", row->number)
                                                           : xstrdup(row->label);
    json_string(json, "part", is_part ? text : NULL);
    if (row->function == STACK_NONE)
        json_string(json, "key", row->label != NULL ? row->label : is_part ? text : "unknown");
    free(text);
}

void table_write_key(struct json_writer *json, struct view_profiles *profiles,
                     enum view_dimension by, const struct table_row *row)
{
    struct function_names names;
    if (row->function != STACK_NONE) {
        functions_name(&profiles->functions, row->function, &names);
        json_unsigned(json, "function", row->function);
        json_string(json, "key", names.name);
        json_string(json, "module", names.module);
        json_string(json, "file", names.file);
        json_unsigned(json, "line", names.line);
    } else if (by == VIEW_THREAD) {
        json_signed(json, "tid", row->number);
    }
    write_part(json, by, row, &names);
}

/* Write what a row has with its callees at each dump of the course, in the view's unit. */
static void write_course(struct json_writer *json, const struct question *question,
                         const struct table_row *row)
{
    const struct course *course = &question->course;
    const struct course_row *found = course_find(course, row, question->by);
    bool counts = export_view_counts_calls(question->selection.view);
    json_array(json, "course");
    for (size_t i = 0; i < course->dump_count; i++) {
        const struct profile_estimate none = {0}, *sum = found ? &found->total[i].gained : &none;
        json_number(json, NULL, counts ? sum->count : sum->bytes);
    }
    json_end_array(json);
}

static void write_row(struct json_writer *json, const struct question *question,
                      const struct table_row *row)
{
    bool has_self = question->by <= VIEW_FILE && question->by != VIEW_HOLDER;
    json_line(json);
    json_object(json, NULL);
    table_write_key(json, question->profiles, question->by, row);
    write_figure(json, question, "bytes", &row->total, false, false);
    write_figure(json, question, "count", &row->total, true, false);
    if (has_self) {
        write_figure(json, question, "self_bytes", &row->self, false, false);
        write_figure(json, question, "self_count", &row->self, true, false);
    }
    if (view_selection_is_difference(&question->selection)) {
        json_number(json, "before", row->total.before);
        json_number(json, "after", row->total.after);
        json_bool(json, "beyond_chance", row->is_beyond_chance);
    }
    if (question->course_dumps > 0)
        write_course(json, question, row);
    json_end_object(json);
}

/* --- order and search --- */

static double answer_table_figure_of(const struct table_row *row, enum order order)
{
    const struct flame_sum *self = &row->self, *total = &row->total;
    switch (order) {
    case ORDER_SELF:
        return self->width;
    case ORDER_TOTAL:
        return total->width;
    case ORDER_BYTES:
        return total->gained.bytes - total->lost.bytes;
    case ORDER_COUNT:
        return total->gained.count - total->lost.count;
    case ORDER_SELF_BYTES:
        return self->gained.bytes - self->lost.bytes;
    case ORDER_BEFORE:
        return total->before;
    case ORDER_AFTER:
        return total->after;
    case ORDER_PERCENT: /* new rows have no change in %: they are above all others */
        return total->before > 0 ? total->after / total->before : INFINITY;
    default:
        return self->gained.count - self->lost.count;
    }
}

static int compare_names(struct functions *functions, const struct table_row *left,
                         const struct table_row *right)
{
    struct function_names one = {.name = left->label}, other = {.name = right->label};
    if (left->function != STACK_NONE) {
        functions_name(functions, left->function, &one);
        functions_name(functions, right->function, &other);
    }
    int order = one.name == NULL ? 0 : strcasecmp(one.name, other.name);
    return order != 0 ? order : (left->number > right->number) - (left->number < right->number);
}

/* Order rows of equal figures: the larger ones first, then as the profile numbers or names them. */
static int compare_ties(const struct table_row *left, const struct table_row *right)
{
    double one = flame_rank(left->total.width), other = flame_rank(right->total.width);
    if (one != other)
        return one > other ? -1 : 1;
    if (left->function != right->function)
        return left->function > right->function ? 1 : -1;
    if (left->number != right->number)
        return left->number > right->number ? 1 : -1;
    return left->label == NULL || right->label == NULL ? 0 : strcmp(left->label, right->label);
}

static int compare_rows(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct table_row *left = left_pointer, *right = right_pointer;
    const struct question *question = context;
    int order;
    if (question->order == ORDER_NAME) {
        order = compare_names(&question->profiles->functions, left, right);
    } else {
        double one = flame_rank(answer_table_figure_of(left, question->order));
        double other = flame_rank(answer_table_figure_of(right, question->order));
        order = (one > other) - (one < other);
    }
    if (order != 0)
        return question->ascending ? order : -order;
    return compare_ties(left, right);
}

static bool is_found(const struct question *question, const struct table_row *row)
{
    struct function_names names = {0};
    const char *text = row->label;
    bool is_class = row->function == STACK_NONE && text == NULL;
    if (question->search == NULL || *question->search == '\0' || is_class)
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

static int parse_order(struct question *question, const struct view_parameters *parameters,
                       struct error *error)
{
    const char *order = view_parameter(parameters, "order"),
               *sort = view_parameter(parameters, "sort");
    while (order != NULL && question->order < ORDERS &&
           strcmp(order, order_names[question->order]) != 0)
        question->order++;
    if (question->order == ORDERS)
        return error_set(error, -EINVAL,
                         "a table is ordered by self, total, bytes, count, self_bytes, "
                         "self_count, before, after, percent or name, not '%.40s'",
                         order);
    if (sort != NULL && strcmp(sort, "up") != 0 && strcmp(sort, "down") != 0)
        return error_set(error, -EINVAL, "a table is sorted up or down, not '%.40s'", sort);
    question->ascending = sort == NULL ? question->order == ORDER_NAME : strcmp(sort, "up") == 0;
    return 0;
}

static int parse(struct question *question, const struct view_parameters *parameters,
                 struct error *error)
{
    const char *by = view_parameter(parameters, "by");
    question->by = by == NULL ? VIEW_FUNCTION : view_dimension_of(by, strlen(by));
    if (question->by == VIEW_DIMENSIONS)
        return error_set(error, -EINVAL, "there is no table by '%.40s'", by);
    question->search = view_parameter(parameters, "search");
    const struct view_range first = {0, UINT32_MAX, 0}, limit = {1, ROWS_MAX, ROWS_DEFAULT},
                            course = {1, COURSE_DUMPS_MAX, 0};
    int code = parse_order(question, parameters, error);
    if (code == 0)
        code = view_parameter_number(parameters, "offset", first, &question->first, error);
    if (code == 0)
        code = view_parameter_number(parameters, "course", course, &question->course_dumps, error);
    return code < 0 ? code
                    : view_parameter_number(parameters, "limit", limit, &question->limit, error);
}

/* Mark the rows whose change is beyond chance. */
static void mark_rows(struct question *question)
{
    struct table *table = &question->table;
    bool counts = export_view_counts_calls(question->selection.view);
    struct change *changes = xcalloc(table->count + 1, sizeof(*changes));
    bool *marks = xcalloc(table->count + 1, sizeof(*marks));
    for (size_t i = 0; i < table->count; i++)
        changes[i] = view_leaves_change(&question->leaves, &table->rows[i].total, counts, false);
    view_leaves_mark(&question->leaves, changes, table->count, marks);
    for (size_t i = 0; i < table->count; i++)
        table->rows[i].is_beyond_chance = marks[i];
    free(changes);
    free(marks);
}

static int make(struct question *question, struct error *error)
{
    view_leaves_make(&question->leaves, question->profiles, &question->selection);
    int code = table_make(&question->table, question->profiles, &question->selection,
                          &question->leaves, question->by, error);
    if (code == 0 && view_selection_is_difference(&question->selection))
        mark_rows(question);
    return code;
}

static void write_answer(struct question *question, FILE *out)
{
    struct table *table = &question->table;
    struct json_writer json = json_begin(out);
    keep_found(question);
    if (table->count > 1)
        qsort_r(table->rows, table->count, sizeof(*table->rows), compare_rows, question);
    json_object(&json, NULL);
    write_figure(&json, question, "bytes", &question->leaves.total, false,
                 question->leaves.is_of_heap);
    write_figure(&json, question, "count", &question->leaves.total, true,
                 question->leaves.is_of_heap);
    json_bool(&json, "unknown", question->leaves.unknown);
    json_bool(&json, "judged", view_leaves_are_judged(&question->leaves));
    json_unsigned(&json, "rows", table->count);
    if (question->course_dumps > 0) {
        json_array(&json, "course");
        for (size_t i = 0; i < question->course.dump_count; i++)
            json_unsigned(&json, NULL, question->course.dumps[i]);
        json_end_array(&json);
    }
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
        code = view_selection_retain(&question.selection, profiles, parameters, error);
    if (code == 0)
        code = make(&question, error);
    if (code == 0 && question.course_dumps > 0)
        code = course_make(&question.course, profiles, &question.selection, question.by,
                           (size_t)question.course_dumps, error);
    if (code == 0)
        write_answer(&question, out);
    course_free(&question.course);
    view_selection_clear(&question.selection);
    view_leaves_free(&question.leaves);
    table_free(&question.table);
    return code;
}
