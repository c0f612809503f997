/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a selection by function, module and file over the tree of stacks. */
#include "tools/view/answers/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/tree_sums.h"
#include "util/xmalloc.h"

/*
 * Tables of what is no part of a stack: threads, types and contexts, into which samples are
 * divided, and classes of samples by size and lifetime.
 *
 * In a difference, threads, types and contexts change as in heap_profile diff. A stack may be of
 * one class before and of another after; each class then has what only= keeps of it on either side.
 */

static void table_add_row(struct table *table, struct table_row row)
{
    XARRAY_ADD(&table->rows, &table->count, &table->capacity, row);
}

/* --- over parts --- */

struct parts {
    struct table *table;
    const struct view_selection *selection;
    enum view_dimension key;
    bool of_least; /* the samples are the lower bound of what was retained */
    struct intern_table ids;
};

/* Return the row of a part. */
static struct table_row *table_row_of(struct parts *at, const struct table_row *wanted)
{
    bool added, is_numbered = wanted->label == NULL || at->key == VIEW_THREAD;
    uint64_t id = xmalloc_id(
        is_numbered ? intern_bytes(&at->ids, &wanted->number, sizeof(wanted->number), &added)
                    : intern_bytes(&at->ids, wanted->label, strlen(wanted->label), &added));
    if (added)
        table_add_row(at->table, *wanted);
    return &at->table->rows[id - 1];
}

/* Add figures to a row. */
static void add_values(struct parts *at, const struct table_row *wanted,
                       const struct rollup_values *values)
{
    const struct profile_estimate figure = estimate_of_view(values, at->selection->view);
    struct flame_sum sum = {.width = 0};
    struct table_row *row = table_row_of(at, wanted);
    *(at->of_least ? &sum.lost : &sum.gained) = figure;
    sum.width = at->of_least ? 0 : estimate_rank(&figure, at->selection->view);
    flame_sum_add(&row->self, &sum);
    flame_sum_add(&row->total, &sum);
}

static const char *thread_name_of(const struct view_dump *of, int32_t tid)
{
    int32_t pid = of->of->profile->processes[of->dump.heap->process].pid;
    return tid == 0 ? "" : profile_thread_name(of->of->profile, pid, tid);
}

static void take_part(struct parts *at, const struct profile_part *part,
                      const struct rollup_values *values)
{
    struct table_row wanted = {.function = STACK_NONE};
    if (at->key == VIEW_THREAD) {
        wanted.number = part->tid;
        wanted.label = thread_name_of(&at->selection->at, part->tid);
    } else {
        wanted.label = at->key == VIEW_TYPE ? part->type : part->context;
    }
    add_values(at, &wanted, values);
}

/* Add a sample's parts. Samples of several threads have no peak of each, but may be of one type. */
static int take_parts(struct parts *at, const struct profile_sample *sample)
{
    static const struct profile_part without_part = {.type = "", .context = ""};
    const struct rollup_values all = rollup_values_of(sample);
    bool is_whole = sample->part_count == 0 || (!sample->tagged && at->key != VIEW_THREAD);
    if (is_whole || (!sample->tagged && sample->part_count == 1)) {
        take_part(at, is_whole ? &without_part : sample->parts, &all);
        return 0;
    }
    if (!sample->tagged && sample->peak.bytes > 0 && at->selection->view == EXPORT_MAX)
        return -ENOTSUP;
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        const struct rollup_values values = {.figures = part->figures, .peak = part->peak};
        take_part(at, part, &values);
    }
    return 0;
}

static int64_t class_of(const struct parts *at, const struct profile_sample *whole)
{
    return at->key == VIEW_SIZE ? view_size_class(whole, at->selection->view)
                                : view_lifetime_class(whole);
}

/* Add a sample to the row of its class, which is that of the whole sample. */
static void take_class(struct parts *at, const struct profile_sample *sample,
                       const struct profile_sample *whole)
{
    const struct rollup_values values = rollup_values_of(sample);
    const struct table_row wanted = {.function = STACK_NONE, .number = class_of(at, whole)};
    add_values(at, &wanted, &values);
}

/* Return what a sample of the shown dump is a part of. */
static const struct profile_sample *whole_of(const struct view_selection *selection,
                                             const struct view_dump *of, size_t index)
{
    return selection->only.count > 0 ? of->part.whole[index] : of->dump.dump->samples[index];
}

static int by_part_of(struct parts *at, struct view_profiles *profiles, const struct view_dump *of)
{
    const struct view_selection *selection = at->selection;
    const struct profile_dump *dump = view_shown(selection, of);
    int code = 0;
    for (size_t i = 0; i < dump->sample_count && code == 0; i++) {
        const struct profile_sample *sample = dump->samples[i];
        if (view_profiles_node(profiles, &selection->filter, of->of, sample->callsite) ==
            STACK_NONE)
            continue;
        if (at->key >= VIEW_SIZE)
            take_class(at, sample, whole_of(selection, of, i));
        else
            code = take_parts(at, sample);
    }
    return code;
}

static int by_part(struct parts *at, struct view_profiles *profiles)
{
    int code = by_part_of(at, profiles, &at->selection->at);
    at->of_least = true;
    if (code == 0 && view_selection_is_retained(at->selection))
        code = by_part_of(at, profiles, &at->selection->least);
    return code;
}

/* --- changes of parts --- */

static void add_change(struct table *table, const struct diff_row *changed,
                       const struct view_selection *selection)
{
    enum export_view view = selection->view;
    enum diff_figure figure = diff_figure_of(view);
    const struct change_parts *parts = &changed->parts[figure];
    struct flame_sum sum = {.gained = parts->gained, .lost = parts->lost};
    view_sum_set_sides(&sum, estimate_rank(&changed->before[figure], view),
                       estimate_rank(&changed->after[figure], view), selection->width);
    table_add_row(table, (struct table_row){.label = changed->label,
                                            .function = STACK_NONE,
                                            .number = changed->tid,
                                            .self = sum,
                                            .total = sum});
}

static int by_label(struct parts *at, struct view_profiles *profiles, struct error *error)
{
    static const enum dimension by[] = {[VIEW_THREAD] = DIMENSION_THREAD,
                                        [VIEW_TYPE] = DIMENSION_TYPE,
                                        [VIEW_CONTEXT] = DIMENSION_CONTEXT};
    const struct diff_options options = {.by = by[at->key], .views = 1u << at->selection->view};
    struct view_selection some;
    int code = view_selection_restrict(&some, profiles, at->selection, NULL, error);
    const struct export_dump dumps[] = {{some.base.dump.heap, &some.base.part.dump},
                                        {some.at.dump.heap, &some.at.part.dump}};
    const struct diff_side before = {some.base.of->profile, &dumps[0], 1},
                           after = {some.at.of->profile, &dumps[1], 1};
    struct diff *diff = code < 0 ? NULL : xmalloc_made(diff_new(&before, &after, &options));
    for (size_t i = 0; code == 0 && diff->pair_count > 0 && i < diff->pairs[0].row_count; i++)
        add_change(at->table, &diff->pairs[0].rows[i], at->selection);
    diff_free(diff);
    view_selection_unrestrict(&some);
    return code;
}

/* List the classes of a dump's samples as rows. */
static void add_classes(struct parts *at, const struct view_dump *of)
{
    const struct profile_dump *dump = of->dump.dump;
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct table_row wanted = {.function = STACK_NONE,
                                         .number = class_of(at, dump->samples[i])};
        table_row_of(at, &wanted);
    }
}

/* Sum up the change of each class: the stacks of a class may be others in the two dumps. */
static int by_class(struct parts *at, struct view_profiles *profiles, struct error *error)
{
    int code = 0;
    add_classes(at, &at->selection->at);
    add_classes(at, &at->selection->base);
    for (size_t i = 0; i < at->table->count && code == 0; i++) {
        struct table_row *row = &at->table->rows[i];
        const struct view_only_item item = {
            .dimension = at->key, .text = "", .number = row->number};
        struct view_selection some;
        struct view_leaves leaves = {0};
        code = view_selection_restrict(&some, profiles, at->selection, &item, error);
        if (code == 0) {
            view_leaves_make(&leaves, profiles, &some);
            row->self = row->total = leaves.total;
        }
        view_leaves_free(&leaves);
        view_selection_unrestrict(&some);
    }
    return code;
}

/* --- */

static const char *why_not(const struct view_selection *selection, enum view_dimension key)
{
    bool is_difference = view_selection_is_difference(selection);
    const char *at = view_dimension_why_unknown(selection->at.dump.heap, key), *base = at;
    if (is_difference)
        base = view_dimension_why_unknown(selection->base.dump.heap, key);
    const char *why = at != NULL ? at : base;
    /* A table of allocations without types has one row, of all. */
    if ((key == VIEW_TYPE || key == VIEW_CONTEXT) && at != NULL && base != NULL)
        why = NULL;
    if (why == NULL && is_difference && key == VIEW_THREAD && selection->view == EXPORT_MAX)
        why = "the file does not contain the peak of single threads";
    if (why == NULL && key >= VIEW_SIZE && view_selection_is_retained(selection))
        why = "the ages and sizes of retained memory are unknown";
    if (why == NULL && is_difference && key >= VIEW_SIZE &&
        selection->at.dump.heap != selection->base.dump.heap)
        why = "two heaps are not compared by it; choose a dump of the same heap";
    return why;
}

/* Make a table by VIEW_THREAD and later dimensions, as table_make(). */
static int part_table_make(struct table *table, struct view_profiles *profiles,
                           const struct view_selection *selection, enum view_dimension key,
                           struct error *error)
{
    struct parts at = {.table = table, .selection = selection, .key = key};
    const char *why = why_not(selection, key);
    if (why != NULL)
        return error_set(error, -EINVAL, "there is no table by %s: %s", view_dimension_names[key],
                         why);
    int code = !view_selection_is_difference(selection) ? by_part(&at, profiles)
               : key >= VIEW_SIZE                       ? by_class(&at, profiles, error)
                                                        : by_label(&at, profiles, error);
    intern_free(&at.ids);
    if (code == -ENOTSUP)
        error_set(error, -EINVAL, "there is no table by %s: %s", view_dimension_names[key],
                  "the file does not contain the peak of single threads");
    return code == -ENOTSUP ? -EINVAL : code;
}

static bool is_of_function(enum view_dimension key)
{
    return key == VIEW_FUNCTION || key == VIEW_HOLDER;
}

/* --- over the tree --- */

/* Make a row for each key of the functions, and set of_functions[i] to that of function i. */
static void number_rows(struct table *table, struct functions *functions, enum view_dimension key,
                        uint32_t *of_functions)
{
    struct intern_table ids = {0};
    struct function_names names;
    if (is_of_function(key))
        XARRAY_RESERVE(&table->rows, &table->capacity, table->count, functions->count);
    for (size_t i = 0; i < functions->count; i++) {
        functions_name(functions, (uint32_t)i, &names);
        const char *text = key == VIEW_MODULE ? names.path : names.file;
        bool added = true;
        uint64_t id = is_of_function(key)
                          ? i + 1
                          : xmalloc_id(intern_bytes(&ids, text, strlen(text), &added));
        of_functions[i] = (uint32_t)(id - 1);
        if (added)
            table_add_row(table, (struct table_row){.label = is_of_function(key) ? NULL : text,
                                                    .function = is_of_function(key) ? (uint32_t)i
                                                                                    : STACK_NONE});
    }
    intern_free(&ids);
}

/* Most nodes have no stacks in a selection. */
static void add_if_any(void *sum, const void *more)
{
    const struct flame_sum *value = more;
    /* What has not changed has no width in a difference, but is a part of both sides. */
    if (value->width != 0 || value->before != 0 || value->after != 0 || value->gained.count != 0 ||
        value->lost.count != 0)
        flame_sum_add(sum, value);
}

static void sum_tree(struct table *table, const struct stack_tree *tree,
                     const struct view_leaves *leaves, const uint32_t *of_functions)
{
    struct flame_sum *values = xcalloc(tree->count + 1, sizeof(*values));
    uint32_t *rows = xcalloc(tree->count + 1, sizeof(*rows));
    for (size_t i = 0; i < tree->count; i++)
        rows[i] = of_functions[tree->nodes[i].function];
    for (size_t i = 0; i < leaves->count; i++) {
        const struct flame_leaf *leaf = &leaves->items[i];
        values[leaf->node] = leaf->own;
        flame_sum_add(&table->rows[rows[leaf->node]].self, &leaf->own);
    }
    const struct tree_sums sums = {
        .count = tree->count,
        .row_count = table->count,
        .parents = TREE_COLUMN(tree->nodes, parent),
        .rows = rows,
        .values = values,
        .value_bytes = sizeof(*values),
        .totals = TREE_COLUMN(table->rows, total),
        .add = add_if_any,
    };
    xmalloc_code(tree_sums_add(&sums));
    free(values);
    free(rows);
}

static void sum_holders(struct table *table, struct view_profiles *profiles,
                        const struct view_leaves *leaves)
{
    const struct stack_tree *tree = view_profiles_tree(profiles);
    for (size_t i = 0; i < leaves->count; i++) {
        struct table_row *row =
            &table->rows[view_profiles_holder(profiles, tree, leaves->items[i].node)];
        flame_sum_add(&row->self, &leaves->items[i].own);
        flame_sum_add(&row->total, &leaves->items[i].own);
    }
}

static void by_function(struct table *table, struct view_profiles *profiles,
                        const struct view_leaves *leaves, enum view_dimension key)
{
    uint32_t *rows = xcalloc(profiles->functions.count + 1, sizeof(*rows));
    number_rows(table, &profiles->functions, key, rows);
    if (key == VIEW_HOLDER)
        sum_holders(table, profiles, leaves);
    else
        sum_tree(table, view_profiles_tree(profiles), leaves, rows);
    free(rows);
}

/* --- */

int table_make(struct table *table, struct view_profiles *profiles,
               const struct view_selection *selection, const struct view_leaves *leaves,
               enum view_dimension key, struct error *error)
{
    *table = (struct table){0};
    int code = 0;
    if (key >= VIEW_THREAD)
        code = part_table_make(table, profiles, selection, key, error);
    else
        by_function(table, profiles, leaves, key);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].total.width != 0)
            table->rows[kept++] = table->rows[i];
    table->count = kept;
    return code;
}

void table_free(struct table *table)
{
    free(table->rows);
    *table = (struct table){0};
}
