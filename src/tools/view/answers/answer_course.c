/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the rows of a table over time: those that had most at any dump, and the sum of the
 * others. By function, module and file a row has what it allocates itself, so that rows add up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/answers/answers.h"
#include "tools/view/answers/course.h"
#include "tools/view/model/limits.h"
#include "util/xmalloc.h"

#define ROWS_DEFAULT 8u
#define ROWS_MAX 100u

struct course_question {
    struct view_profiles *profiles;
    struct view_selection selection;
    struct course course;
    enum view_dimension by;
    uint64_t limit, dumps;
};

static int course_parse(struct course_question *question, const struct view_parameters *parameters,
                        struct error *error)
{
    const struct view_range limit = {1, ROWS_MAX, ROWS_DEFAULT},
                            dumps = {1, COURSE_DUMPS_MAX, COURSE_DUMPS_MAX};
    const char *by = view_parameter(parameters, "by");
    question->by = by == NULL ? VIEW_HOLDER : view_dimension_of(by, strlen(by));
    if (question->by == VIEW_DIMENSIONS)
        return error_set(error, -EINVAL, "there is no table by '%.40s'", by);
    int code = view_parameter_number(parameters, "limit", limit, &question->limit, error);
    if (code == 0)
        code = view_parameter_number(parameters, "dumps", dumps, &question->dumps, error);
    return code < 0
               ? code
               : view_selection_parse(&question->selection, question->profiles, parameters, error);
}

/* --- order --- */

static double most_of(const struct course_row *row, size_t dump_count)
{
    double most = 0;
    for (size_t i = 0; i < dump_count; i++)
        if (row->self[i].width > most)
            most = row->self[i].width;
    return flame_rank(most);
}

static int compare_courses(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct course_row *left = left_pointer, *right = right_pointer;
    const struct course *course = context;
    double one = most_of(left, course->dump_count), other = most_of(right, course->dump_count);
    if (one != other)
        return one < other ? 1 : -1;
    return left->row.function > right->row.function ? 1
           : left->row.function < right->row.function
               ? -1
               : (left->row.number > right->row.number) - (left->row.number < right->row.number);
}

/* --- the answer --- */

/* Write the columns of figures by dump. */
static void write_figures(struct json_writer *json, const struct course_question *question,
                          const struct flame_sum *sums)
{
    static const char *const names[] = {"value", "low", "high"};
    const struct course *course = &question->course;
    bool counts = export_view_counts_calls(question->selection.view);
    struct export_dump at = question->selection.at.dump;
    for (int column = 0; column < 3; column++) {
        json_array(json, names[column]);
        for (size_t i = 0; i < course->dump_count; i++) {
            const struct profile_estimate *sum = &sums[i].gained;
            at.dump = &at.heap->dumps[course->dumps[i]];
            const struct profile_interval limits = view_limits(sum, counts, &at);
            json_number(json, NULL,
                        column == 0   ? (counts ? sum->count : sum->bytes)
                        : column == 1 ? limits.low
                                      : limits.high);
        }
        json_end_array(json);
    }
}

/* Write the sum of the rows from this one on. */
static void write_rest(struct json_writer *json, const struct course_question *question,
                       size_t first)
{
    const struct course *course = &question->course;
    struct flame_sum *sums = xcalloc(course->dump_count + 1, sizeof(*sums));
    for (size_t i = first; i < course->row_count; i++)
        for (size_t j = 0; j < course->dump_count; j++)
            flame_sum_add(&sums[j], &course->rows[i].self[j]);
    json_object(json, "rest");
    write_figures(json, question, sums);
    json_end_object(json);
    free(sums);
}

static void write_course(const struct course_question *question, FILE *out)
{
    const struct course *course = &question->course;
    size_t rows = 0, shown;
    while (rows < course->row_count && most_of(&course->rows[rows], course->dump_count) > 0)
        rows++;
    shown = rows < question->limit ? rows : question->limit;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_bool(&json, "unknown", course->unknown);
    json_unsigned(&json, "all", course->kept);
    json_array(&json, "dumps");
    for (size_t i = 0; i < course->dump_count; i++)
        json_unsigned(&json, NULL, course->dumps[i]);
    json_end_array(&json);
    json_unsigned(&json, "rows", rows);
    json_array(&json, "row");
    for (size_t i = 0; i < shown; i++) {
        json_line(&json);
        json_object(&json, NULL);
        table_write_key(&json, question->profiles, question->by, &course->rows[i].row);
        write_figures(&json, question, course->rows[i].self);
        json_end_object(&json);
    }
    json_end_array(&json);
    write_rest(&json, question, shown);
    json_end_object(&json);
}

int answer_course(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    struct course_question question = {.profiles = profiles};
    struct course *course = &question.course;
    int code = course_parse(&question, parameters, error);
    if (code == 0)
        code = course_make(course, profiles, &question.selection, question.by,
                           (size_t)question.dumps, error);
    if (code == 0) {
        if (course->row_count > 1)
            qsort_r(course->rows, course->row_count, sizeof(*course->rows), compare_courses,
                    course);
        write_course(&question, out);
    }
    course_free(course);
    view_selection_clear(&question.selection);
    return code;
}
