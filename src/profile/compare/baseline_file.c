/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, writes and searches baseline files. baseline_read.c reads them. */
#include "profile/compare/baseline_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/stack_pattern.h"
#include "util/array.h"
#include "util/json_writer.h"
#include "util/utf8.h"

static const char *const figure_names[GROWTH_FIGURES] = {
    [GROWTH_LIVE] = "live",
    [GROWTH_PEAK] = "peak",
    [GROWTH_ALLOCATED] = "allocated",
    [GROWTH_CALLS] = "calls",
};

/* --- the functions that had most --- */

/* A function by its name as a pattern. */
struct candidate {
    char *name;
    double amounts[GROWTH_FIGURES], rank;
};

struct candidates {
    struct intern_table ids;
    struct candidate *items;
    size_t count, capacity;
};

static void candidates_clear(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        free(candidates->items[i].name);
    free(candidates->items);
    intern_free(&candidates->ids);
}

static bool is_text(const char *name, size_t length)
{
    const unsigned char *at = (const unsigned char *)name, *end = at + length;
    while (at < end) {
        size_t width = utf8_length(at);
        if (width == 0 || *at < ' ')
            return false;
        at += width;
    }
    return true;
}

/* Add what a callsite and its callees have to its function, unless its caller is the same one. */
static int candidates_add(struct candidates *candidates, const struct profile *profile,
                          uint32_t callsite, const double amounts[GROWTH_FIGURES])
{
    const struct profile_callsite *at = &profile->callsites[callsite];
    const char *name = profile->frames[at->frame].name;
    size_t length = stack_pattern_name_length(name);
    bool added = false;
    if (length == 0 || length >= GROWTH_ROW_BYTES || !is_text(name, length) ||
        (at->parent != PROFILE_NONE &&
         profile->frames[profile->callsites[at->parent].frame].name == name))
        return 0;
    uint64_t id = intern_bytes(&candidates->ids, name, length, &added);
    if (id == 0 ||
        (added && ARRAY_RESERVE(&candidates->items, &candidates->capacity, id - 1, 1) < 0))
        return -ENOMEM;
    if (added) {
        candidates->items[id - 1] = (struct candidate){.name = strndup(name, length)};
        candidates->count = id;
    }
    for (int i = 0; i < GROWTH_FIGURES; i++)
        candidates->items[id - 1].amounts[i] += amounts[i];
    return candidates->items[id - 1].name == NULL ? -ENOMEM : 0;
}

static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Find the functions of the program, the one with the largest share in any figure first. */
static int candidates_find(const struct growth_side *side, struct candidates *candidates)
{
    const struct budget_subject *subject = side->subject;
    const struct profile *profile = subject->profile;
    double(*sums)[GROWTH_FIGURES] = calloc(profile->callsite_count + 1, sizeof(*sums));
    double all[GROWTH_FIGURES] = {0};
    int code = sums == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < subject->dump_count && code == 0; i++) {
        const struct profile_dump *dump = subject->dumps[i].dump;
        for (size_t j = 0; j < dump->sample_count; j++) {
            const struct profile_sample *sample = dump->samples[j];
            for (int k = 0; k < GROWTH_FIGURES && sample->callsite != PROFILE_NONE; k++) {
                double amount = growth_side_of_sample(side, sample, (enum growth_figure)k);
                sums[sample->callsite][k] += amount;
                all[k] += amount;
            }
        }
    }
    /* Children come after their parents. */
    for (size_t i = profile->callsite_count; i-- > 0 && code == 0;) {
        uint32_t parent = profile->callsites[i].parent;
        for (int k = 0; k < GROWTH_FIGURES && parent != PROFILE_NONE; k++)
            sums[parent][k] += sums[i][k];
        if (folding_of(subject->folding, profile->callsites[i].frame) == NULL)
            code = candidates_add(candidates, profile, (uint32_t)i, sums[i]);
    }
    free(sums);
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *one = &candidates->items[i];
        for (int k = 0; k < GROWTH_FIGURES; k++)
            if (all[k] > 0)
                one->rank = fmax(one->rank, fmin(one->amounts[k] / all[k], 1));
    }
    if (code == 0 && candidates->count > 1)
        qsort(candidates->items, candidates->count, sizeof(*candidates->items), compare_candidates);
    return code;
}

/* --- making --- */

/* Copy a text so that a file can keep it: what is not UTF-8 becomes '?', and a long one is cut. */
static int copy_text(char **copy, const char *text)
{
    size_t length = strnlen(text, BASELINE_TEXT_BYTES_MAX);
    *copy = strndup(text, length);
    for (unsigned char *at = (unsigned char *)*copy; at != NULL && *at != '\0';) {
        size_t width = utf8_length(at);
        if (width == 0)
            *at = '?';
        at += width > 0 ? width : 1;
    }
    return *copy == NULL ? -ENOMEM : 0;
}

static int measure_row(struct growth_side *side, const char *pattern, struct baseline_row *row)
{
    const char *partial = NULL, *totals_partial = NULL;
    if (growth_side_choose(side, pattern) < 0)
        return -ENOMEM;
    for (int i = 0; i < GROWTH_FIGURES; i++) {
        row->amounts[i] = growth_side_measure(side, (enum growth_figure)i);
        const struct growth_amount *amount = &row->amounts[i];
        row->lacks_frees |= amount->lacks_frees;
        if (amount->counted && amount->partial_before != NULL)
            totals_partial = amount->partial_before;
        else if (amount->partial_before != NULL)
            partial = amount->partial_before;
    }
    if ((pattern != NULL && copy_text(&row->of, pattern) < 0) ||
        (partial != NULL && copy_text(&row->partial, partial) < 0) ||
        (totals_partial != NULL && copy_text(&row->totals_partial, totals_partial) < 0))
        return -ENOMEM;
    return 0;
}

static struct baseline_row *baseline_file_find_row(const struct baseline_file *file, const char *of)
{
    for (size_t i = 0; i < file->row_count; i++)
        if (strcmp(file->rows[i].of, of) == 0)
            return &file->rows[i];
    return NULL;
}

static void clear_row(struct baseline_row *row)
{
    free(row->of);
    free(row->partial);
    free(row->totals_partial);
}

static int baseline_file_add_row(struct baseline_file *file, struct growth_side *side,
                                 const char *pattern)
{
    if (baseline_file_find_row(file, pattern) != NULL || file->row_count >= BASELINE_ROWS_MAX)
        return 0;
    if (ARRAY_RESERVE(&file->rows, &file->row_capacity, file->row_count, 1) < 0)
        return -ENOMEM;
    struct baseline_row row = {0};
    int code = measure_row(side, pattern, &row);
    /* A file has all heaps. One that it lacks was not there. */
    if (code == 0 && !row.amounts[GROWTH_LIVE].absent)
        file->rows[file->row_count++] = row;
    else
        clear_row(&row);
    return code;
}

static int add_rows(struct baseline_file *file, const struct budgets *budgets,
                    struct growth_side *side)
{
    const struct budget_subject *subject = side->subject;
    struct candidates candidates = {0};
    char heap[GROWTH_ROW_BYTES];
    int code = candidates_find(side, &candidates);
    for (size_t i = 0; i < subject->dump_count && code == 0; i++) {
        const char *name = subject->dumps[i].heap->name;
        int length = snprintf(heap, sizeof(heap), "heap:%s", name);
        if (length > 0 && (size_t)length < sizeof(heap) && is_text(heap, (size_t)length))
            code = baseline_file_add_row(file, side, heap);
    }
    for (size_t i = 0; i < budgets->count && code == 0; i++) {
        const char *pattern = budgets->items[i].pattern;
        if (budget_is_growth(budgets->items[i].kind) && pattern != NULL &&
            strlen(pattern) <= BASELINE_TEXT_BYTES_MAX && is_text(pattern, strlen(pattern)))
            code = baseline_file_add_row(file, side, pattern);
    }
    for (size_t i = 0; i < candidates.count && i < BASELINE_FUNCTIONS && code == 0; i++)
        if (candidates.items[i].rank > 0)
            code = baseline_file_add_row(file, side, candidates.items[i].name);
    candidates_clear(&candidates);
    return code < 0 ? code : growth_side_choose(side, NULL);
}

/* Return the largest share that a row has of the run's figures. */
static double share_of(const struct growth_row *row, const struct baseline_file *file)
{
    double share = 0;
    for (int i = 0; i < GROWTH_FIGURES; i++)
        if (file->total.amounts[i].value > 0)
            share = fmax(share, row->amounts[i] / file->total.amounts[i].value);
    return share;
}

struct ranked_row {
    const struct growth_row *row;
    double share;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked_row *a = left, *b = right;
    if (a->share != b->share)
        return a->share < b->share ? 1 : -1;
    return strcmp(a->row->text, b->row->text);
}

static int add_stacks(struct baseline_file *file, const struct growth_side *side)
{
    struct growth_rows rows;
    if (growth_rows_make(side, GROWTH_LIVE, &rows) < 0)
        return -ENOMEM;
    struct ranked_row *ranked = calloc(rows.count + 1, sizeof(*ranked));
    int code = ranked == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < rows.count && code == 0; i++)
        ranked[i] = (struct ranked_row){&rows.rows[i], share_of(&rows.rows[i], file)};
    if (code == 0 && rows.count > 1)
        qsort(ranked, rows.count, sizeof(*ranked), compare_ranked);
    for (size_t i = BASELINE_STACKS; i < rows.count && code == 0; i++)
        for (int j = 0; j < GROWTH_FIGURES; j++)
            file->other_stacks[j] = fmax(file->other_stacks[j], ranked[i].row->amounts[j]);
    for (size_t i = 0; i < rows.count && i < BASELINE_STACKS && code == 0; i++) {
        struct baseline_stack stack = {.text = strdup(ranked[i].row->text)};
        memcpy(stack.amounts, ranked[i].row->amounts, sizeof(stack.amounts));
        code = stack.text == NULL
                   ? -ENOMEM
                   : ARRAY_ADD(&file->stacks, &file->stack_count, &file->stack_capacity, stack);
        if (code < 0)
            free(stack.text);
    }
    free(ranked);
    growth_rows_clear(&rows);
    return code;
}

static int compare_rows(const void *left, const void *right)
{
    const struct baseline_row *a = left, *b = right;
    return strcmp(a->of, b->of);
}

static int compare_stacks(const void *left, const void *right)
{
    const struct baseline_stack *a = left, *b = right;
    return strcmp(a->text, b->text);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int add_suppressions(struct baseline_file *file, const struct budgets *budgets)
{
    for (size_t i = 0; i < budgets->suppression_count && i < BASELINE_ROWS_MAX; i++) {
        char *pattern = NULL;
        if (copy_text(&pattern, budgets->suppressions[i].pattern) < 0 ||
            ARRAY_ADD(&file->suppressions, &file->suppression_count, &file->suppression_capacity,
                      pattern) < 0) {
            free(pattern);
            return -ENOMEM;
        }
    }
    if (file->suppression_count > 1)
        qsort(file->suppressions, file->suppression_count, sizeof(*file->suppressions),
              compare_texts);
    size_t kept = 0;
    for (size_t i = 0; i < file->suppression_count; i++) {
        char *text = file->suppressions[i];
        if (kept > 0 && strcmp(file->suppressions[kept - 1], text) == 0)
            free(text);
        else
            file->suppressions[kept++] = text;
    }
    file->suppression_count = kept;
    return 0;
}

/* Take what is unseen, and leave it out of the sums: --only-profiled does not want it. */
static int take_seen(struct baseline_file *file, const struct budget_subject *subject,
                     struct export_dump *seen, size_t *count)
{
    int code = 0;
    for (size_t i = 0; i < subject->dump_count; i++) {
        const struct profile_heap *heap = subject->dumps[i].heap;
        if (!heap->unseen)
            seen[(*count)++] = subject->dumps[i];
        else if (file->unseen == NULL && code == 0)
            code = copy_text(&file->unseen, profile_heap_why_unseen(heap));
    }
    for (size_t i = 0; i < subject->dump_count && *count == 0; i++)
        seen[i] = subject->dumps[i];
    *count = *count == 0 ? subject->dump_count : *count;
    return code;
}

int baseline_file_make(const struct budgets *budgets, const struct budget_subject *subject,
                       struct baseline_file *file)
{
    struct budget_subject seen = *subject;
    struct export_dump *dumps = calloc(subject->dump_count + 1, sizeof(*dumps));
    struct growth_side side = {0};
    *file = (struct baseline_file){0};
    seen.dumps = dumps;
    seen.dump_count = 0;
    int code = dumps == NULL ? -ENOMEM : take_seen(file, subject, dumps, &seen.dump_count);
    if (code == 0 && seen.dump_count > 0)
        code =
            copy_text(&file->command, subject->profile->processes[dumps[0].heap->process].command);
    if (code == 0 && subject->heap != NULL)
        code = copy_text(&file->heap, subject->heap);
    seen.only_profiled = false; /* whoever compares decides that */
    for (size_t i = 0; i < subject->profile->unprofiled_count; i++)
        file->unprofiled |= budget_counts_unprofiled(&seen, i);
    if (code == 0)
        code = growth_side_open(&side, budgets, &seen);
    if (code == 0) {
        code = measure_row(&side, NULL, &file->total);
        file->interval_bytes = file->total.amounts[GROWTH_LIVE].interval_bytes;
        code = code < 0 ? code : add_suppressions(file, budgets);
        code = code < 0 ? code : add_rows(file, budgets, &side);
        code = code < 0 ? code : add_stacks(file, &side);
        growth_side_close(&side);
    }
    if (file->row_count > 1)
        qsort(file->rows, file->row_count, sizeof(*file->rows), compare_rows);
    if (file->stack_count > 1)
        qsort(file->stacks, file->stack_count, sizeof(*file->stacks), compare_stacks);
    free(dumps);
    return code;
}

/* --- writing --- */

static void write_amount(struct json_writer *json, const char *name,
                         const struct growth_amount *amount)
{
    if (amount->unknown != NULL) {
        json_null(json, name);
    } else if (amount->exact || amount->counted) {
        json_number(json, name, round(amount->value));
    } else {
        json_array(json, name);
        json_number(json, NULL, round(amount->value));
        json_number(json, NULL, floor(amount->interval.low));
        json_number(json, NULL, ceil(amount->interval.high));
        json_end_array(json);
    }
}

static void write_row(struct json_writer *json, const char *key, const struct baseline_row *row)
{
    json_line(json);
    json_object(json, key);
    if (row->of != NULL)
        json_string(json, "of", row->of);
    for (int i = 0; i < GROWTH_FIGURES; i++)
        write_amount(json, figure_names[i], &row->amounts[i]);
    if (row->partial != NULL)
        json_string(json, "partial", row->partial);
    if (row->totals_partial != NULL)
        json_string(json, "totals_partial", row->totals_partial);
    if (row->lacks_frees)
        json_bool(json, "lacks_frees", true);
    json_end_object(json);
}

static void write_facts(struct json_writer *json, const struct baseline_file *file)
{
    json_line(json);
    json_unsigned(json, "heap_profile_baseline", 1);
    json_line(json);
    json_string(json, "made_by", "heap_profile " HEAPPROFD_VERSION);
    json_line(json);
    json_string(json, "command", file->command != NULL ? file->command : "");
    json_line(json);
    json_unsigned(json, "interval_bytes", file->interval_bytes);
    if (file->heap != NULL) {
        json_line(json);
        json_string(json, "heap", file->heap);
    }
    if (file->unseen != NULL) {
        json_line(json);
        json_string(json, "unseen", file->unseen);
    }
    if (file->unprofiled) {
        json_line(json);
        json_bool(json, "unprofiled", true);
    }
    json_line(json);
    json_array(json, "suppressions");
    for (size_t i = 0; i < file->suppression_count; i++)
        json_string(json, NULL, file->suppressions[i]);
    json_end_array(json);
}

void baseline_file_write(const struct baseline_file *file, FILE *out)
{
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    write_facts(&json, file);
    write_row(&json, "total", &file->total);
    json_line(&json);
    json_array(&json, "rows");
    for (size_t i = 0; i < file->row_count; i++)
        write_row(&json, NULL, &file->rows[i]);
    json_end_array(&json);
    json_line(&json);
    json_object(&json, "other_stacks");
    for (int i = 0; i < GROWTH_FIGURES; i++)
        json_number(&json, figure_names[i], ceil(file->other_stacks[i]));
    json_end_object(&json);
    json_line(&json);
    json_array(&json, "stacks");
    for (size_t i = 0; i < file->stack_count; i++) {
        json_line(&json);
        json_object(&json, NULL);
        json_string(&json, "stack", file->stacks[i].text);
        for (int j = 0; j < GROWTH_FIGURES; j++)
            json_number(&json, figure_names[j], round(file->stacks[i].amounts[j]));
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', out);
}

/* --- searching --- */

static bool has_other_suppressions(const struct baseline_file *file, const struct budgets *budgets)
{
    bool used[BASELINE_ROWS_MAX] = {0};
    size_t used_count = 0;
    for (size_t i = 0; i < budgets->suppression_count; i++) {
        char *key = budgets->suppressions[i].pattern, **found = NULL;
        if (file->suppression_count > 0)
            found = bsearch(&key, file->suppressions, file->suppression_count,
                            sizeof(*file->suppressions), compare_texts);
        if (found == NULL)
            return true;
        used_count += !used[found - file->suppressions];
        used[found - file->suppressions] = true;
    }
    return used_count != file->suppression_count;
}

static struct growth_amount unknown_amount(const char *reason)
{
    return (struct growth_amount){.unknown = reason};
}

struct growth_amount baseline_file_find(const struct baseline_file *file,
                                        const struct budgets *budgets,
                                        const struct budget_subject *subject, const char *pattern,
                                        enum growth_figure figure)
{
    char of_heap[GROWTH_ROW_BYTES];
    bool is_same_heap = (file->heap == NULL) == (subject->heap == NULL) &&
                        (file->heap == NULL || strcmp(file->heap, subject->heap) == 0);
    if (file->heap == NULL && subject->heap != NULL && pattern == NULL) {
        snprintf(of_heap, sizeof(of_heap), "heap:%s", subject->heap);
        pattern = of_heap;
        is_same_heap = true;
    }
    if (file->unseen != NULL && !subject->only_profiled)
        return unknown_amount(file->unseen);
    if (!is_same_heap)
        return unknown_amount("the baseline file was not saved with the same --heap: save it again "
                              "with it, or compare with the whole profile");
    if (figure == GROWTH_LIVE && has_other_suppressions(file, budgets))
        return unknown_amount("the baseline file was saved with other suppressions: save it again");
    const struct baseline_row *row =
        pattern != NULL ? baseline_file_find_row(file, pattern) : &file->total;
    const char *heap = growth_heap_pattern(pattern);
    bool is_absent = row == NULL && heap != NULL && strpbrk(heap, "*?[\\") == NULL;
    if (row == NULL && !is_absent)
        return unknown_amount("the baseline file has no row for it: save it again with this "
                              "budget, or compare with the whole profile");
    /* The run may lack this heap because of what it lost: the reasons are the total's. */
    row = is_absent ? &file->total : row;
    struct growth_amount amount = row->amounts[figure];
    amount.partial_before = amount.counted ? row->totals_partial : row->partial;
    if (is_absent) {
        amount.absent = true;
        amount.unknown = NULL;
        amount.value = amount.interval.low = amount.interval.high = 0;
    }
    return amount;
}

double baseline_file_stack(const struct baseline_file *file, const char *text,
                           enum growth_figure figure, double *most)
{
    const struct baseline_stack key = {.text = (char *)text}, *found = NULL;
    if (file->stack_count > 0)
        found =
            bsearch(&key, file->stacks, file->stack_count, sizeof(*file->stacks), compare_stacks);
    *most = found != NULL ? found->amounts[figure] : file->other_stacks[figure];
    return found != NULL ? found->amounts[figure] : 0;
}

void baseline_file_clear(struct baseline_file *file)
{
    clear_row(&file->total);
    for (size_t i = 0; i < file->row_count; i++)
        clear_row(&file->rows[i]);
    for (size_t i = 0; i < file->stack_count; i++)
        free(file->stacks[i].text);
    for (size_t i = 0; i < file->suppression_count; i++)
        free(file->suppressions[i]);
    free(file->rows);
    free(file->stacks);
    free(file->suppressions);
    free(file->command);
    free(file->heap);
    free(file->unseen);
    *file = (struct baseline_file){0};
}
