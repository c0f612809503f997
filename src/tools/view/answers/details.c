/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the rows of several dumps by function or type. The stacks of one dump at a time are in
 * memory. */
#include "tools/view/answers/details.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "util/xmalloc.h"

struct maker {
    struct details *details;
    const struct details_request *request;
    uint32_t *of_functions; /* by function: its row + 1 */
    struct intern_table types;
};

/* Return a row's sum of a column: a dump or, after the last one, the change. */
static struct flame_sum *sum_of(const struct maker *maker, struct details_row *row, size_t column)
{
    return column < maker->request->dump_count ? &row->dumps[column] : &row->change;
}

static void details_add_row(struct details *details, struct details_row row)
{
    XARRAY_ADD(&details->rows, &details->count, &details->capacity, row);
}

/* --- by backtrace --- */

static struct details_row *row_of_function(struct maker *maker, uint32_t function)
{
    struct details *details = maker->details;
    if (maker->of_functions[function] == 0) {
        details_add_row(details, (struct details_row){.function = function});
        maker->of_functions[function] = (uint32_t)details->count;
    }
    return &details->rows[maker->of_functions[function] - 1];
}

static void details_take_node(const struct maker *maker, struct details_row *row, size_t column,
                              const struct flame_node *node)
{
    *sum_of(maker, row, column) = node->sum;
    row->opens |= node->self.width < node->sum.width;
}

static void take_level(struct maker *maker, size_t column, const struct flame *flame)
{
    for (size_t i = 0; i < flame->count; i++) {
        const struct flame_node *node = &flame->nodes[i];
        struct details_row *row =
            i == 0 ? &maker->details->total : row_of_function(maker, node->function);
        details_take_node(maker, row, column, node);
    }
}

static int add_level(struct maker *maker, size_t column, const struct view_leaves *leaves)
{
    const struct details_request *request = maker->request;
    const struct flame_request level = {
        .tree = view_profiles_tree(request->profiles),
        .leaves = leaves->items,
        .leaf_count = leaves->count,
        .function_count = request->profiles->functions.count,
        .direction = request->direction,
        .path = request->path,
        .path_length = request->path_length,
        .one_level = true,
    };
    struct flame flame;
    int code = flame_make(&level, &flame);
    if (code == 0)
        take_level(maker, column, &flame);
    flame_free(&flame);
    return code;
}

/* --- by type --- */

/* Return whether a stack of the tree goes along the path. */
static bool is_below_path(const struct details_request *request, uint32_t node)
{
    const struct stack_node *nodes = view_profiles_tree(request->profiles)->nodes;
    size_t depth = 0;
    if (request->path_length == 0)
        return true;
    for (uint32_t at = node; at != STACK_NONE; at = nodes[at].parent)
        depth++;
    if (depth < request->path_length)
        return false;
    if (request->direction == FLAME_DOWN)
        for (size_t i = depth; i > request->path_length; i--)
            node = nodes[node].parent;
    for (size_t i = 0; i < request->path_length; i++, node = nodes[node].parent) {
        size_t at = request->direction == FLAME_DOWN ? request->path_length - 1 - i : i;
        if (nodes[node].function != request->path[at])
            return false;
    }
    return true;
}

static struct details_row *row_of_type(struct maker *maker, const char *type)
{
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(&maker->types, type, strlen(type), &added));
    if (added)
        details_add_row(maker->details,
                        (struct details_row){.function = STACK_NONE, .label = type});
    return &maker->details->rows[id - 1];
}

static void add_to_type(struct maker *maker, size_t column, const char *type,
                        const struct flame_sum *sum)
{
    struct details_row *row = row_of_type(maker, type);
    flame_sum_add(sum_of(maker, row, column), sum);
    flame_sum_add(sum_of(maker, &maker->details->total, column), sum);
}

static void add_values(struct maker *maker, size_t column, const char *type,
                       const struct rollup_values *values)
{
    enum export_view view = maker->request->selection->view;
    struct flame_sum sum = {.gained = estimate_of_view(values, view)};
    sum.width = estimate_rank(&sum.gained, view);
    if (sum.gained.bytes != 0 || sum.gained.count != 0)
        add_to_type(maker, column, type, &sum);
}

static void add_sample(struct maker *maker, size_t column, const struct profile_sample *sample)
{
    if (!sample->tagged) {
        const struct rollup_values values = rollup_values_of(sample);
        add_values(maker, column, "", &values);
        return;
    }
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        const struct rollup_values values = {part->figures, part->peak};
        add_values(maker, column, part->type, &values);
    }
}

static bool has_types(const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        for (uint32_t j = 0; sample->tagged && j < sample->part_count; j++)
            if (*sample->parts[j].type != '\0')
                return true;
    }
    return false;
}

static bool is_selected(const struct details_request *request, const struct view_profile *of,
                        uint32_t callsite)
{
    uint32_t node =
        view_profiles_node(request->profiles, &request->selection->filter, of, callsite);
    return node != STACK_NONE && is_below_path(request, node);
}

static void add_types(struct maker *maker, size_t column)
{
    const struct details_request *request = maker->request;
    const struct view_dump *of = &request->dumps[column];
    const struct profile_dump *dump = view_shown(request->selection, of);
    maker->details->has_types = maker->details->has_types || has_types(of->dump.dump);
    for (size_t i = 0; i < dump->sample_count; i++)
        if (is_selected(request, of->of, dump->samples[i]->callsite))
            add_sample(maker, column, dump->samples[i]);
}

static void take_part(void *context, const struct profile_part *part, const struct flame_sum *sum)
{
    struct maker *maker = context;
    if (sum->gained.count != 0 || sum->lost.count != 0 || sum->width != 0)
        add_to_type(maker, maker->request->dump_count, part->type, sum);
}

static void take_change(void *context, const struct view_change *change)
{
    struct maker *maker = context;
    const struct profile_sample *sample = change->after != NULL ? change->after : change->before;
    if (is_selected(maker->request, maker->request->selection->at.of, sample->callsite))
        view_change_each(change, take_part, context);
}

/* Two heaps share no samples: each has lost all that it had, and gained all that the other has. */
static void take_heaps(struct details *details)
{
    for (size_t i = 0; i <= details->count; i++) {
        struct details_row *row = i < details->count ? &details->rows[i] : &details->total;
        row->change.gained = row->dumps[0].gained;
        row->change.lost = row->dumps[1].gained;
    }
}

/* The dumps, of which the second is the base, are summed up already. */
static void add_type_changes(struct maker *maker)
{
    const struct view_selection *selection = maker->request->selection;
    if (selection->at.dump.heap == selection->base.dump.heap)
        view_changes_walk(selection, take_change, maker);
    else
        take_heaps(maker->details);
}

/* --- */

static int add_dump(struct maker *maker, size_t column)
{
    const struct details_request *request = maker->request;
    struct view_selection selection = *request->selection;
    struct view_leaves leaves;
    if (request->by == DETAILS_BY_TYPE) {
        add_types(maker, column);
        return 0;
    }
    selection.at = request->dumps[column];
    selection.base = (struct view_dump){0};
    view_leaves_make(&leaves, request->profiles, &selection);
    int code = add_level(maker, column, &leaves);
    view_leaves_free(&leaves);
    return code;
}

static int add_change(struct maker *maker)
{
    const struct details_request *request = maker->request;
    struct details *details = maker->details;
    struct view_leaves *leaves = &details->leaves;
    int code = 0;
    view_leaves_make(leaves, request->profiles, request->selection);
    if (request->by == DETAILS_BY_TYPE)
        add_type_changes(maker);
    else
        code = add_level(maker, request->dump_count, leaves);
    free(leaves->items);
    leaves->items = NULL;
    details->has_change = true;
    leaves->is_of_heap =
        leaves->is_of_heap && request->path_length == 0 && request->selection->filter.count == 0;
    return code;
}

/* Mark the rows whose change is beyond chance, and the total by itself. */
static void mark(struct details *details, enum export_view view)
{
    bool counts = export_view_counts_calls(view);
    struct change *changes = xcalloc(details->count + 1, sizeof(*changes));
    bool *marks = xcalloc(details->count + 1, sizeof(*marks));
    for (size_t i = 0; i < details->count; i++)
        changes[i] = details_change(details, &details->rows[i], counts);
    view_leaves_mark(&details->leaves, changes, details->count, marks);
    for (size_t i = 0; i < details->count; i++)
        details->rows[i].mark = marks[i];
    changes[0] = details_change(details, &details->total, counts);
    if (details->leaves.is_of_heap)
        xmalloc_code(change_mark(changes, 1, &details->total.mark));
    else
        view_leaves_mark(&details->leaves, changes, 1, &details->total.mark);
    free(changes);
    free(marks);
}

int details_make(struct details *details, const struct details_request *request)
{
    struct maker maker = {.details = details, .request = request};
    bool has_path = false;
    *details = (struct details){.total = {.function = STACK_NONE}};
    maker.of_functions =
        xcalloc(request->profiles->functions.count + 1, sizeof(*maker.of_functions));
    int code = 0;
    /* A dump may have no stack along the path, but one of them has. */
    for (size_t i = 0; i < request->dump_count && code == 0; i++) {
        code = add_dump(&maker, i);
        has_path |= code == 0;
        code = code == -ENOENT ? 0 : code;
    }
    if (code == 0 && view_selection_is_difference(request->selection)) {
        code = add_change(&maker);
        has_path |= code == 0;
        code = code == -ENOENT ? 0 : code;
    }
    if (code == 0 && !has_path)
        code = -ENOENT;
    if (code == 0 && request->path_length > 0)
        details->total.function = request->path[request->path_length - 1];
    if (code == 0 && details->has_change)
        mark(details, request->selection->view);
    free(maker.of_functions);
    intern_free(&maker.types);
    if (code < 0)
        details_free(details);
    return code;
}

void details_free(struct details *details)
{
    free(details->rows);
    *details = (struct details){0};
}

struct change details_change(const struct details *details, const struct details_row *row,
                             bool counts)
{
    bool of_heap = row == &details->total && details->leaves.is_of_heap;
    return view_leaves_change(&details->leaves, &row->change, counts, of_heap);
}
