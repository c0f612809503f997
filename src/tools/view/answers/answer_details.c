/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with a level of the heap details: the rows below a path by backtrace, or the types there,
 * with the figures of up to four dumps side by side.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/details.h"
#include "tools/view/model/limits.h"
#include "util/json_writer.h"

#define ROWS_DEFAULT 200u
#define ROWS_MAX 20000u

enum order { ORDER_NAME, ORDER_BYTES, ORDER_COUNT, ORDER_AVERAGE, ORDER_CHANGE, ORDER_DUMP };
static const char *const order_names[] = {"name", "bytes", "count", "average", "change", "dump"};

struct question {
    struct view_profiles *profiles;
    struct view_selection selection;
    struct details_request request;
    size_t first_also; /* of the request's dumps: these have parts of their own */
    uint32_t path[FLAME_PATH_MAX];
    struct details details;
    enum order order;
    size_t ordered_dump; /* of ORDER_DUMP */
    bool ascending;
    const char *search;
    uint64_t first, limit;
};

/* --- the question --- */

static int parse_by(struct question *question, const struct view_parameters *parameters,
                    struct error *error)
{
    const char *by = view_parameter(parameters, "by"),
               *direction = view_parameter(parameters, "direction"),
               *root = view_parameter(parameters, "root");
    struct details_request *request = &question->request;
    if (by != NULL && strcmp(by, "backtrace") != 0 && strcmp(by, "type") != 0)
        return error_set(error, -EINVAL, "details are by backtrace or type, not by '%.40s'", by);
    request->by = by != NULL && *by == 't' ? DETAILS_BY_TYPE : DETAILS_BY_BACKTRACE;
    if (direction != NULL && strcmp(direction, "down") != 0 && strcmp(direction, "up") != 0)
        return error_set(error, -EINVAL, "details go down or up, not '%.40s'", direction);
    request->direction = direction != NULL && *direction == 'u' ? FLAME_UP : FLAME_DOWN;
    request->path = question->path;
    int64_t length = root == NULL ? 0 : flame_parse_path(root, question->path, error);
    request->path_length = length < 0 ? 0 : (size_t)length;
    for (size_t i = 0; i < request->path_length; i++)
        if (question->path[i] >= question->profiles->functions.count)
            return error_set(error, -ENOENT, "root: there is no function %u", question->path[i]);
    return length < 0 ? (int)length : 0;
}

/* order=NAME, "-NAME" for the other way round; a dump's is "dump0". */
static int parse_order(struct question *question, const struct view_parameters *parameters,
                       struct error *error)
{
    const char *text = view_parameter(parameters, "order");
    const char *name = text == NULL ? "bytes" : text + (*text == '-');
    question->ascending = text != NULL && *text == '-';
    for (enum order order = ORDER_NAME; order <= ORDER_DUMP; order++) {
        size_t length = strlen(order_names[order]);
        question->order = order;
        if (order < ORDER_DUMP && strcmp(name, order_names[order]) == 0)
            return 0;
        if (order == ORDER_DUMP && strncmp(name, order_names[order], length) == 0 &&
            name[length] >= '0' && name[length] < '0' + (char)DETAILS_DUMPS_MAX &&
            name[length + 1] == '\0') {
            question->ordered_dump = (size_t)(name[length] - '0');
            return 0;
        }
    }
    return error_set(error, -EINVAL,
                     "details are ordered by name, bytes, count, average, change or dump0 to "
                     "dump%u, not '%.40s'",
                     DETAILS_DUMPS_MAX - 1, text);
}

/* The dumps side by side: the selected one, the base, and each `also`. */
static int find_dumps(struct question *question, const struct view_parameters *parameters,
                      struct error *error)
{
    const struct view_selection *selection = &question->selection;
    struct details_request *request = &question->request;
    request->dumps[request->dump_count++] = selection->at;
    if (view_selection_is_difference(selection))
        request->dumps[request->dump_count++] = selection->base;
    question->first_also = request->dump_count;
    for (size_t i = 0; i < parameters->count; i++) {
        const struct view_parameter *also = &parameters->items[i];
        if (strcmp(also->name, "also") != 0)
            continue;
        if (request->dump_count == DETAILS_DUMPS_MAX)
            return error_set(error, -E2BIG, "there are more than %u dumps side by side",
                             DETAILS_DUMPS_MAX);
        int code = view_selection_find_dump(selection, question->profiles, also->value,
                                            &request->dumps[request->dump_count++], error);
        if (code < 0)
            return code;
    }
    return 0;
}

static int parse(struct question *question, const struct view_parameters *parameters,
                 struct error *error)
{
    const struct view_range first = {0, UINT32_MAX, 0}, limit = {1, ROWS_MAX, ROWS_DEFAULT};
    int code = view_selection_parse(&question->selection, question->profiles, parameters, error);
    question->request.profiles = question->profiles;
    question->request.selection = &question->selection;
    question->search = view_parameter(parameters, "search");
    if (code == 0)
        code = parse_by(question, parameters, error);
    if (code == 0)
        code = parse_order(question, parameters, error);
    if (code == 0)
        code = find_dumps(question, parameters, error);
    if (code == 0)
        code = view_parameter_number(parameters, "offset", first, &question->first, error);
    if (code == 0)
        code = view_parameter_number(parameters, "limit", limit, &question->limit, error);
    return code;
}

/* --- order and search --- */

static double average(const struct flame_sum *sum)
{
    return sum->gained.count > 0 ? sum->gained.bytes / sum->gained.count : 0;
}

static double rank_of(const struct question *question, const struct details_row *row)
{
    enum export_view view = question->selection.view;
    switch (question->order) {
    case ORDER_BYTES:
        return row->dumps[0].gained.bytes;
    case ORDER_COUNT:
        return row->dumps[0].gained.count;
    case ORDER_AVERAGE:
        return average(&row->dumps[0]);
    case ORDER_CHANGE:
        return estimate_rank(&row->change.gained, view) - estimate_rank(&row->change.lost, view);
    default:
        return estimate_rank(&row->dumps[question->ordered_dump].gained, view);
    }
}

static void answer_details_name_of(const struct question *question, const struct details_row *row,
                                   struct function_names *names)
{
    if (row->function != STACK_NONE)
        functions_name(&question->profiles->functions, row->function, names);
    else
        *names = (struct function_names){.name = row->label,
                                         .full_name = row->label,
                                         .module = "",
                                         .path = "",
                                         .file = "",
                                         .kind = ""};
}

static int compare_names(const struct question *question, const struct details_row *left,
                         const struct details_row *right)
{
    struct function_names one, other;
    answer_details_name_of(question, left, &one);
    answer_details_name_of(question, right, &other);
    int order = strcasecmp(one.name, other.name);
    return order != 0 ? order : strcmp(one.full_name, other.full_name);
}

static int compare_rows(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct details_row *left = left_pointer, *right = right_pointer;
    const struct question *question = context;
    int sign = question->ascending ? -1 : 1;
    if (question->order == ORDER_NAME) {
        int order = compare_names(question, left, right);
        if (order != 0)
            return sign * order;
    } else {
        double one = rank_of(question, left), other = rank_of(question, right);
        if (one != other)
            return one > other ? -sign : sign;
    }
    return left->function > right->function ? 1 : -(left->function < right->function);
}

static void keep_found(struct question *question)
{
    struct details *details = &question->details;
    struct function_names names;
    size_t kept = 0;
    if (question->search == NULL || *question->search == '\0')
        return;
    for (size_t i = 0; i < details->count; i++) {
        answer_details_name_of(question, &details->rows[i], &names);
        if (strcasestr(names.full_name, question->search) != NULL ||
            strcasestr(names.module, question->search) != NULL)
            details->rows[kept++] = details->rows[i];
    }
    details->count = kept;
}

/* --- figures --- */

static void write_interval(struct json_writer *json, const char *key, double value,
                           struct profile_interval interval)
{
    json_object(json, key);
    json_number(json, "value", value);
    json_number(json, "low", interval.low);
    json_number(json, "high", interval.high);
    json_end_object(json);
}

/* Return whether a file lacks the bytes or the counts of a view. */
static bool lacks(const struct profile_heap *heap, enum export_view view, bool counts)
{
    static const enum export_view counting[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = EXPORT_OBJECTS,
        [EXPORT_OBJECTS] = EXPORT_OBJECTS,
        [EXPORT_ALLOC_SPACE] = EXPORT_ALLOC_OBJECTS,
        [EXPORT_ALLOC_OBJECTS] = EXPORT_ALLOC_OBJECTS,
        [EXPORT_MAX] = EXPORT_MAX,
    };
    static const enum export_view sizing[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = EXPORT_SPACE,
        [EXPORT_OBJECTS] = EXPORT_SPACE,
        [EXPORT_ALLOC_SPACE] = EXPORT_ALLOC_SPACE,
        [EXPORT_ALLOC_OBJECTS] = EXPORT_ALLOC_SPACE,
        [EXPORT_MAX] = EXPORT_MAX,
    };
    return export_view_is_unknown(heap, (counts ? counting : sizing)[view]) ||
           (counts && (heap->unknown & PROFILE_UNKNOWN_COUNTS) != 0);
}

/* Write the figure of each dump; null: its file does not contain it. The total of a heap leaves
 * room for callsites without samples. */
static void write_dumps(struct json_writer *json, const struct question *question,
                        const struct details_row *row, bool counts)
{
    const struct details_request *request = &question->request;
    bool is_heap = row == &question->details.total && request->path_length == 0 &&
                   request->selection->filter.count == 0 && request->selection->only.count == 0;
    json_array(json, counts ? "count" : "bytes");
    for (size_t i = 0; i < request->dump_count; i++) {
        const struct export_dump *of = &request->dumps[i].dump;
        const struct profile_estimate *sum = &row->dumps[i].gained;
        const struct estimate_shown shown =
            is_heap ? view_total(of, request->selection->view, counts)
                    : (struct estimate_shown){counts ? sum->count : sum->bytes,
                                              view_limits(sum, counts, of)};
        if (lacks(of->heap, request->selection->view, counts))
            json_null(json, NULL);
        else
            write_interval(json, NULL, shown.value, shown.interval);
    }
    json_end_array(json);
}

static void write_change(struct json_writer *json, const struct question *question,
                         const struct details_row *row, bool counts)
{
    const struct change change = details_change(&question->details, row, counts);
    for (size_t i = 0; i < 2; i++) {
        if (lacks(question->request.dumps[i].dump.heap, question->selection.view, counts)) {
            json_null(json, counts ? "count" : "bytes");
            return;
        }
    }
    write_interval(json, counts ? "count" : "bytes", change.value,
                   view_leaves_limits(&question->details.leaves, &change));
}

static void write_row(struct json_writer *json, const char *key, const struct question *question,
                      const struct details_row *row)
{
    json_object(json, key);
    if (row->function != STACK_NONE) {
        struct function_names names;
        functions_name(&question->profiles->functions, row->function, &names);
        json_unsigned(json, "function", row->function);
        json_string(json, "key", names.name);
        if (strcmp(names.name, names.full_name) != 0)
            json_string(json, "full_name", names.full_name);
        json_string(json, "module", names.module);
        json_bool(json, "opens", row->opens);
    } else {
        json_string(json, "key", row->label != NULL ? row->label : "");
    }
    write_dumps(json, question, row, false);
    write_dumps(json, question, row, true);
    if (question->details.has_change) {
        json_object(json, "change");
        write_change(json, question, row, false);
        write_change(json, question, row, true);
        json_end_object(json);
        json_bool(json, "mark", row->mark);
    }
    json_end_object(json);
}

/* --- */

/* Write the functions of the path. */
static void write_path(struct json_writer *json, const struct question *question)
{
    struct function_names names;
    json_array(json, "path");
    for (size_t i = 0; i < question->request.path_length; i++) {
        functions_name(&question->profiles->functions, question->request.path[i], &names);
        json_object(json, NULL);
        json_string(json, "key", names.name);
        json_string(json, "module", names.module);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_answer(struct question *question, FILE *out)
{
    struct details *details = &question->details;
    struct json_writer json = json_begin(out);
    keep_found(question);
    if (details->count > 1)
        qsort_r(details->rows, details->count, sizeof(*details->rows), compare_rows, question);
    json_object(&json, NULL);
    if (question->request.by == DETAILS_BY_TYPE)
        json_bool(&json, "unknown", !details->has_types);
    write_path(&json, question);
    write_row(&json, "total", question, &details->total);
    json_unsigned(&json, "rows", details->count);
    json_array(&json, "row");
    for (size_t i = question->first; i < details->count && i - question->first < question->limit;
         i++) {
        json_line(&json);
        write_row(&json, NULL, question, &details->rows[i]);
    }
    json_end_array(&json);
    json_end_object(&json);
}

int answer_details(struct view_profiles *profiles, const struct view_parameters *parameters,
                   FILE *out, struct error *error)
{
    struct question question = {.profiles = profiles};
    int code = parse(&question, parameters, error);
    if (code == 0) {
        code = details_make(&question.details, &question.request);
        if (code < 0)
            error_set(error, code, "nothing of this selection is below that path");
    }
    if (code == 0)
        write_answer(&question, out);
    details_free(&question.details);
    for (size_t i = question.first_also; i < question.request.dump_count; i++)
        view_part_free(&question.request.dumps[i].part);
    view_selection_clear(&question.selection);
    return code;
}
