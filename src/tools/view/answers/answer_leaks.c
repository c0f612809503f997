/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the rows of `heap_profile leaks`: of the live memory of a dump, or of what has grown
 * between two. Rows are made, judged, ranked and worded by the code of that verb.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/leak_rows.h"
#include "tools/print/compare_stacks.h"
#include "tools/print/turnover_text.h"
#include "tools/view/answers/answers.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define ROWS_DEFAULT 200u
#define ROWS_MAX 20000u
#define TYPES_MAX 16u /* of a row */

struct question {
    struct view_profiles *profiles;
    struct view_selection selection; /* as it was asked */
    struct view_selection kept;      /* what filters leave of it */
    bool shrunk;
    const char *search;
    uint64_t limit;
    struct diff *diff;
    struct compare_stacks stacks; /* whose foldings are the profiles' */
    struct leak_rows_of of;
    struct leak_rows rows;
};

/* --- a row --- */

static void write_change(struct json_writer *json, const char *key, const struct diff_pair *pair,
                         enum export_view view, const struct change *change)
{
    bool has_limits = !change->uncertain && !change->partial && !pair->partial;
    if (diff_is_unknown(pair, view)) {
        json_null(json, key);
        return;
    }
    json_object(json, key);
    json_number(json, "value", change->value);
    json_number(json, "low", has_limits ? change->interval.low : (double)NAN);
    json_number(json, "high", has_limits ? change->interval.high : (double)NAN);
    json_end_object(json);
}

/* Return how `leaks` names a row, without limit of its width; malloc'd. */
static char *text_of(const struct question *question, const struct diff_row *row)
{
    char *text;
    size_t length;
    FILE *out = xopen_memstream(&text, &length);
    compare_print_row(&question->stacks, question->rows.pair, row, EXPORT_SPACE, false, 0, out);
    xclose_memstream(out);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* Return the line below a row; malloc'd. */
static char *line_of(const struct turnover *turnover)
{
    char *text;
    size_t length;
    FILE *out = xopen_memstream(&text, &length);
    turnover_print_line(turnover, "", out);
    xclose_memstream(out);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void write_types(struct json_writer *json, const struct diff_pair *pair,
                        const struct diff_row *row)
{
    size_t written = 0;
    json_array(json, "types");
    for (size_t i = 0; i < row->type_count && written < TYPES_MAX; i++) {
        const struct diff_type *type = &pair->types[row->type_first + i];
        double count = growth_type_count(type);
        bool is_typed = strcmp(type->type, DIFF_NO_TYPE) != 0;
        if (count == 0 || (!is_typed && row->type_count == 1))
            continue;
        json_object(json, NULL);
        json_string(json, "name", is_typed ? type->type : "");
        json_number(json, "count", count);
        json_end_object(json);
        written++;
    }
    json_end_array(json);
}

/* Write the function that the row begins with: the first that is not an allocator's. */
static void write_function(struct json_writer *json, const struct question *question,
                           const struct diff_row *row)
{
    const struct view_profile *of = view_profiles_of(question->profiles, row->profile);
    struct folding_row steps;
    folding_row_of(&of->folding, row->profile, row->callsite, &steps);
    uint32_t callsite = steps.steps[0].callsite;
    json_unsigned(json, "function", of->of_frames[row->profile->callsites[callsite].frame]);
}

static void write_row(struct json_writer *json, const struct question *question,
                      const struct diff_row *row, const char *text)
{
    const struct diff_pair *pair = question->rows.pair;
    const struct turnover *turnover = leak_rows_turnover(&question->rows, row);
    char *line = line_of(turnover);
    json_line(json);
    json_object(json, NULL);
    json_string(json, "text", text);
    write_function(json, question, row);
    write_change(json, "bytes", pair, EXPORT_SPACE, &row->changes[EXPORT_SPACE]);
    write_change(json, "count", pair, EXPORT_OBJECTS, &row->changes[EXPORT_OBJECTS]);
    if (question->of.is_difference)
        json_bool(json, "beyond_chance", row->marks[EXPORT_SPACE]);
    write_types(json, pair, row);
    json_string(json, "line", line);
    turnover_print_json(json, turnover);
    json_end_object(json);
    free(line);
}

/* --- the answer --- */

/* Return why nothing is known; "": it is. */
static const char *why_unknown(const struct question *question)
{
    const struct view_selection *selection = &question->selection;
    if (selection->at.dump.heap->unseen)
        return profile_heap_why_unseen(selection->at.dump.heap);
    if (export_view_is_unknown(selection->at.dump.heap, EXPORT_SPACE) ||
        (question->of.is_difference &&
         export_view_is_unknown(selection->base.dump.heap, EXPORT_SPACE)))
        return "Live memory is not in the file.";
    return "";
}

static void write_rows(struct json_writer *json, const struct question *question)
{
    const struct growth_list *list =
        question->shrunk ? &question->rows.shrunk : &question->rows.grown;
    bool searches = question->search != NULL && *question->search != '\0';
    size_t found = 0;
    double rest = 0;
    json_array(json, "row");
    for (size_t i = 0; i < list->count; i++) {
        bool is_full = found >= question->limit;
        char *text = is_full && !searches ? NULL : text_of(question, list->entries[i].row);
        bool is_found = !searches || strcasestr(text, question->search) != NULL;
        found += is_found;
        if (is_found && is_full)
            rest += list->entries[i].size;
        else if (is_found)
            write_row(json, question, list->entries[i].row, text);
        free(text);
    }
    json_end_array(json);
    json_unsigned(json, "rows", found);
    json_number(json, "rest_bytes", rest);
}

static void write_answer(const struct question *question, FILE *out)
{
    const struct leak_rows *rows = &question->rows;
    const char *why = why_unknown(question);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "why", why);
    if (*why == '\0' && rows->pair != NULL) {
        const struct change *total = rows->pair->total.changes;
        json_bool(&json, "same_process", rows->pair->same_process);
        json_bool(&json, "exact", rows->pair->exact);
        write_change(&json, "bytes", rows->pair, EXPORT_SPACE, &total[EXPORT_SPACE]);
        write_change(&json, "count", rows->pair, EXPORT_OBJECTS, &total[EXPORT_OBJECTS]);
        json_unsigned(&json, "potential_leaks", rows->leak_count);
        json_unsigned(&json, "lacks_ms", leak_rows_lack_ms(rows, &question->of));
        json_unsigned(&json, "grown", rows->grown.count);
        json_unsigned(&json, "shrunk", rows->shrunk.count);
        json_number(&json, "shrunk_bytes", rows->shrunk.size_sum);
        write_rows(&json, question);
    }
    json_end_object(&json);
}

static int check_size(const struct question *question, struct error *error)
{
    const struct view_dump *dumps[] = {&question->selection.at, &question->selection.base};
    struct export_callers callers = {0};
    int code = 0;
    for (size_t i = 0; i < 2 && code == 0; i++)
        if (dumps[i]->dump.dump != NULL)
            code = export_callers_add(&callers, dumps[i]->of->profile, dumps[i]->dump.dump, error);
    export_callers_clear(&callers);
    return code;
}

static void make_rows(struct question *question)
{
    static const struct growth_options everything;
    const struct view_selection *kept = &question->kept;
    const struct view_profile *at = kept->at.of;
    const struct view_profile *base = question->of.is_difference ? kept->base.of : at;
    const struct export_dump early = {kept->base.dump.heap, &kept->base.part.dump},
                             late = {kept->at.dump.heap, &kept->at.part.dump};
    const struct diff_side before = {base->profile, &early, question->of.is_difference ? 1 : 0},
                           after = {at->profile, &late, 1};
    const struct diff_options by = {
        .by = DIMENSION_CALLSITE,
        .pairing = DIFF_PAIR_PIDS,
        .views = 1U << EXPORT_SPACE | 1U << EXPORT_OBJECTS,
        .types = true,
        .stacks = true,
        .as_shown = true,
        .foldings = {&base->folding, &at->folding},
    };
    question->of.after = at->profile;
    question->stacks = (struct compare_stacks){
        .profiles = {question->of.is_difference ? base->profile : NULL, at->profile},
        .foldings = {base->folding, at->folding},
        .simple = true,
    };
    question->diff = xmalloc_made(diff_new(&before, &after, &by));
    if (question->diff->pair_count > 0)
        xmalloc_code(
            leak_rows_make(&question->rows, &question->diff->pairs[0], &question->of, &everything));
}

int answer_leaks(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error)
{
    const struct view_range limit = {1, ROWS_MAX, ROWS_DEFAULT};
    struct question question = {.profiles = profiles,
                                .search = view_parameter(parameters, "search"),
                                .shrunk = view_parameter(parameters, "shrunk") != NULL};
    int code = view_parameter_number(parameters, "limit", limit, &question.limit, error);
    if (code == 0)
        code = view_selection_parse(&question.selection, profiles, parameters, error);
    question.of.is_difference = view_selection_is_difference(&question.selection);
    if (code == 0 && question.selection.at.dump.dump == NULL)
        code = error_set(error, -ENOENT, "the heap has no dump yet");
    if (code == 0)
        code = check_size(&question, error);
    if (code == 0)
        code = view_selection_restrict(&question.kept, profiles, &question.selection, NULL, error);
    if (code == 0) {
        if (*why_unknown(&question) == '\0')
            make_rows(&question);
        write_answer(&question, out);
    }
    leak_rows_clear(&question.rows);
    diff_free(question.diff);
    view_selection_unrestrict(&question.kept);
    view_selection_clear(&question.selection);
    return code;
}
