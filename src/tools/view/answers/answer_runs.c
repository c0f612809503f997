/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with a comparison of two groups of runs, each a profile: the mean of each row on both
 * sides, with the spread between the runs, and how much it has changed (profile/compare/runs.h). A
 * run has its heap of the selected one's name, at its last dump.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/runs.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/table.h"
#include "tools/view/model/kept.h"
#include "tools/view/model/limits.h"
#include "trace/intern.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define ROWS_DEFAULT 200u
#define ROWS_MAX 20000u
#define RUNS_MAX VIEW_PROFILES_MAX

struct run {
    struct view_profile *of;
    struct export_dump dump;
};

/* A row of all runs: those before, then those after. */
struct runs_row {
    struct table_row key;
    double values[RUNS_MAX], variances[RUNS_MAX];
    struct change change;
    bool is_marked;
};

struct question {
    struct view_profiles *profiles;
    struct view_selection selection;
    enum view_dimension by;
    uint64_t limit;
    const char *search;
    struct run runs[RUNS_MAX];
    size_t before, count; /* runs of the earlier side, and of both */
    struct runs_row *rows;
    size_t row_count, row_capacity;
    struct intern_table ids;
};

/* --- the runs --- */

/* Find the heap of a profile that is like the selected one: of its name, and of a program of the
 * same name if there is one; the largest of several. */
static struct export_dump find_heap(const struct question *question, const struct view_profile *of)
{
    const struct view_selection *selection = &question->selection;
    const struct profile_heap *like = selection->at.dump.heap;
    const char *process = selection->at.of->profile->processes[like->process].name;
    struct export_dump best = {0};
    struct rollup_size most = {0};
    bool is_namesake = false;
    for (size_t i = 0; i < of->profile->heap_count; i++) {
        const struct profile_heap *heap = &of->profile->heaps[i];
        size_t last = view_kept_last(question->profiles, heap);
        if (heap->unseen || last >= heap->dump_count || strcmp(heap->name, like->name) != 0)
            continue;
        bool is_own = strcmp(of->profile->processes[heap->process].name, process) == 0;
        struct rollup_size size = rollup_size_of(&heap->dumps[last]);
        if (best.heap != NULL &&
            (is_own != is_namesake ? is_namesake : rollup_size_compare(&size, &most) >= 0))
            continue;
        best = (struct export_dump){heap, &heap->dumps[last]};
        most = size;
        is_namesake = is_own;
    }
    return best;
}

/* Add a run by the number of its profile. */
static int add_run(struct question *question, size_t profile, struct error *error)
{
    if (profile >= question->profiles->count || question->count == RUNS_MAX)
        return error_set(error, -ENOENT, "there is no profile %zu, or there are too many runs",
                         profile);
    struct view_profile *of = &question->profiles->items[profile];
    const struct run run = {of, find_heap(question, of)};
    if (run.dump.heap == NULL)
        return error_set(error, -ENOENT, "'%.200s' has no dump of the heap %.100s", of->path,
                         question->selection.at.dump.heap->name);
    if (export_view_is_unknown(run.dump.heap, question->selection.view))
        return error_set(error, -EINVAL, "'%.200s' does not contain these figures", of->path);
    question->runs[question->count++] = run;
    return 0;
}

/* Add the runs "0,2,5" of one side. */
static int add_side(struct question *question, const char *text, struct error *error)
{
    int code = 0;
    if (text == NULL || *text == '\0')
        return error_set(error, -EINVAL, "before= and after= are numbers of profiles: 0,1,2");
    while (code == 0) {
        char *end;
        unsigned long profile = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || (*end != ',' && *end != '\0'))
            return error_set(error, -EINVAL, "'%.40s' is no list of profiles", text);
        code = add_run(question, profile, error);
        if (*end == '\0')
            break;
        text = end + 1;
    }
    return code;
}

/* --- rows --- */

static struct runs_row *row_of(struct question *question, const struct table_row *wanted)
{
    bool added;
    const char *label = wanted->label != NULL ? wanted->label : "";
    bool is_function = wanted->function != STACK_NONE;
    uint64_t id =
        xmalloc_id(is_function ? intern_bytes(&question->ids, &wanted->function,
                                              sizeof(wanted->function), &added)
                               : intern_bytes(&question->ids, label, strlen(label) + 1, &added));
    if (added) {
        const struct runs_row row = {.key = *wanted};
        XARRAY_ADD(&question->rows, &question->row_count, &question->row_capacity, row);
    }
    return &question->rows[id - 1];
}

static void take_figure(const struct question *question, struct runs_row *row, size_t run,
                        const struct flame_sum *sum)
{
    bool counts = export_view_counts_calls(question->selection.view);
    row->values[run] = counts ? sum->gained.count : sum->gained.bytes;
    row->variances[run] = counts ? sum->gained.count_variance : sum->gained.bytes_variance;
}

/* Take the table of a run. */
static int take_run(struct question *question, size_t run, struct runs_row *total,
                    struct error *error)
{
    struct view_selection some = question->selection;
    struct view_leaves leaves = {0};
    struct table table = {0};
    some.at = (struct view_dump){.of = question->runs[run].of, .dump = question->runs[run].dump};
    some.base = (struct view_dump){0};
    int code = some.only.count == 0 ? 0 : view_selection_remake(&some, question->profiles, error);
    if (code == 0) {
        view_leaves_make(&leaves, question->profiles, &some);
        code = table_make(&table, question->profiles, &some, &leaves, question->by, error);
    }
    take_figure(question, total, run, &leaves.total);
    for (size_t i = 0; i < table.count && code == 0; i++)
        take_figure(question, row_of(question, &table.rows[i]), run, &table.rows[i].total);
    table_free(&table);
    view_leaves_free(&leaves);
    if (some.only.count > 0)
        view_selection_unrestrict(&some);
    return code;
}

static struct runs_side side_of(const struct question *question, const struct runs_row *row,
                                bool is_after)
{
    size_t first = is_after ? question->before : 0,
           end = is_after ? question->count : question->before;
    return (struct runs_side){&row->values[first], &row->variances[first], end - first};
}

static void compare_row(const struct question *question, struct runs_row *row)
{
    const struct runs_side before = side_of(question, row, false),
                           after = side_of(question, row, true);
    row->change = runs_compare(&before, &after);
}

/* Compare all rows, and mark those whose change is beyond chance. */
static void compare_rows(struct question *question)
{
    struct change *changes = xcalloc(question->row_count + 1, sizeof(*changes));
    bool *marks = xcalloc(question->row_count + 1, sizeof(*marks));
    for (size_t i = 0; i < question->row_count; i++) {
        compare_row(question, &question->rows[i]);
        changes[i] = question->rows[i].change;
    }
    xmalloc_code(change_mark(changes, question->row_count, marks));
    for (size_t i = 0; i < question->row_count; i++)
        question->rows[i].is_marked = marks[i] && !question->rows[i].change.uncertain;
    free(changes);
    free(marks);
}

/* Compare for qsort: the greatest change first. */
static int compare_changes(const void *left_pointer, const void *right_pointer)
{
    const struct runs_row *left = left_pointer, *right = right_pointer;
    double one = flame_rank(fabs(left->change.value)),
           other = flame_rank(fabs(right->change.value));
    if (one != other)
        return one > other ? -1 : 1;
    if (left->key.function != right->key.function)
        return left->key.function < right->key.function ? -1 : 1;
    return left->key.label == NULL || right->key.label == NULL
               ? 0
               : strcmp(left->key.label, right->key.label);
}

/* --- the answer --- */

static void write_side(struct json_writer *json, const struct question *question,
                       const struct runs_row *row, bool is_after)
{
    const struct runs_side side = side_of(question, row, is_after);
    const struct runs_mean mean = runs_mean_of(&side);
    json_object(json, is_after ? "after" : "before");
    json_number(json, "mean", mean.mean);
    json_number(json, "spread", mean.spread);
    json_array(json, "runs");
    for (size_t i = 0; i < side.count; i++)
        json_number(json, NULL, side.values[i]);
    json_end_array(json);
    json_end_object(json);
}

static void write_figures(struct json_writer *json, const struct question *question,
                          const struct runs_row *row)
{
    write_side(json, question, row, false);
    write_side(json, question, row, true);
    json_number(json, "change", row->change.value);
    json_number(json, "low", row->change.interval.low);
    json_number(json, "high", row->change.interval.high);
    json_number(json, "probability", row->change.probability);
}

static bool is_found(const struct question *question, const struct runs_row *row)
{
    struct function_names names = {.full_name = row->key.label, .module = ""};
    if (question->search == NULL || *question->search == '\0')
        return true;
    if (row->key.function != STACK_NONE)
        functions_name(&question->profiles->functions, row->key.function, &names);
    return names.full_name != NULL && (strcasestr(names.full_name, question->search) != NULL ||
                                       strcasestr(names.module, question->search) != NULL);
}

static void write_rows(struct json_writer *json, const struct question *question)
{
    uint64_t found = 0;
    json_array(json, "row");
    for (size_t i = 0; i < question->row_count; i++) {
        const struct runs_row *row = &question->rows[i];
        if (!is_found(question, row) || found++ >= question->limit)
            continue;
        json_line(json);
        json_object(json, NULL);
        table_write_key(json, question->profiles, question->by, &row->key);
        write_figures(json, question, row);
        json_bool(json, "beyond_chance", row->is_marked);
        json_end_object(json);
    }
    json_end_array(json);
    json_unsigned(json, "rows", found);
}

static void write_answer(struct question *question, const struct runs_row *total, FILE *out)
{
    struct json_writer json = json_begin(out);
    if (question->row_count > 1)
        qsort(question->rows, question->row_count, sizeof(*question->rows), compare_changes);
    json_object(&json, NULL);
    json_bool(&json, "counts", export_view_counts_calls(question->selection.view));
    json_object(&json, "total");
    write_figures(&json, question, total);
    json_end_object(&json);
    write_rows(&json, question);
    json_end_object(&json);
}

static int parse(struct question *question, const struct view_parameters *parameters,
                 struct error *error)
{
    const struct view_range limit = {1, ROWS_MAX, ROWS_DEFAULT};
    const char *by = view_parameter(parameters, "by");
    question->by = by == NULL ? VIEW_HOLDER : view_dimension_of(by, strlen(by));
    question->search = view_parameter(parameters, "search");
    if (question->by != VIEW_HOLDER && question->by != VIEW_FUNCTION &&
        question->by != VIEW_MODULE && question->by != VIEW_FILE)
        return error_set(error, -EINVAL, "runs are compared by holder, function, module or file");
    int code = view_parameter_number(parameters, "limit", limit, &question->limit, error);
    if (code == 0)
        code = view_selection_parse(&question->selection, question->profiles, parameters, error);
    if (code == 0)
        code = add_side(question, view_parameter(parameters, "before"), error);
    question->before = question->count;
    return code < 0 ? code : add_side(question, view_parameter(parameters, "after"), error);
}

int answer_runs(struct view_profiles *profiles, const struct view_parameters *parameters, FILE *out,
                struct error *error)
{
    struct question question = {.profiles = profiles};
    struct runs_row total = {0};
    int code = parse(&question, parameters, error);
    for (size_t i = 0; i < question.count && code == 0; i++)
        code = take_run(&question, i, &total, error);
    if (code == 0) {
        compare_row(&question, &total);
        compare_rows(&question);
        write_answer(&question, &total, out);
    }
    free(question.rows);
    intern_free(&question.ids);
    view_selection_clear(&question.selection);
    return code;
}
