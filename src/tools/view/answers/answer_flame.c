/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a flame graph: the header as JSON, then a column of numbers for each figure. */
#include <stdlib.h>
#include <string.h>

#include "profile/rollup.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/graph.h"
#include "tools/view/model/limits.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

struct tree {
    struct view_profiles *profiles;
    struct view_graph graph;
    uint32_t *functions; /* those of the graph, in the order of the header */
    size_t function_count;
    uint32_t *numbers; /* by function: its place in `functions` + 1 */
};

/* --- the functions of the graph --- */

static void number_functions(struct tree *tree)
{
    size_t count = tree->profiles->functions.count + tree->graph.groups.count;
    tree->numbers = xcalloc(count + 1, sizeof(*tree->numbers));
    tree->functions = xcalloc(count + 1, sizeof(*tree->functions));
    for (size_t i = 0; i < tree->graph.flame.count; i++) {
        uint32_t function = tree->graph.flame.nodes[i].function;
        if (function == STACK_NONE || tree->numbers[function] != 0)
            continue;
        tree->functions[tree->function_count++] = function;
        tree->numbers[function] = (uint32_t)tree->function_count;
    }
}

static void write_functions(struct json_writer *json, const struct tree *tree)
{
    struct function_names names;
    json_array(json, "functions");
    for (size_t i = 0; i < tree->function_count; i++) {
        const struct view_group *group =
            view_graph_group(&tree->graph, tree->profiles, tree->functions[i]);
        view_graph_names(&tree->graph, tree->profiles, tree->functions[i], &names);
        json_object(json, NULL);
        json_unsigned(json, "id", tree->functions[i]);
        json_string(json, "name", names.name);
        if (strcmp(names.name, names.full_name) != 0)
            json_string(json, "full_name", names.full_name);
        json_string(json, "module", names.module);
        if (*names.file != '\0') {
            json_string(json, "file", names.file);
            json_unsigned(json, "line", names.line);
        }
        if (*names.kind != '\0')
            json_string(json, "kind", names.kind);
        if (group != NULL && group->part != NULL)
            json_string(json, "part", group->part);
        json_end_object(json);
    }
    json_end_array(json);
}

/* Write all groups, also those that hold nothing or are unknown. */
static void write_groups(struct json_writer *json, const struct tree *tree)
{
    const struct view_groups *groups = &tree->graph.groups;
    if (groups->by == NULL)
        return;
    json_array(json, "groups");
    for (size_t i = 0; i < groups->count; i++) {
        json_object(json, NULL);
        json_string(json, "name", groups->items[i].name);
        json_string(json, "note", groups->items[i].note);
        json_end_object(json);
    }
    json_end_array(json);
}

/* --- the columns --- */

enum column_type { COLUMN_F64, COLUMN_F32, COLUMN_U32 };
static const struct {
    const char *name;
    size_t bytes;
} column_types[] = {
    [COLUMN_F64] = {"f64", 8},
    [COLUMN_F32] = {"f32", 4},
    [COLUMN_U32] = {"u32", 4},
};

/* A column is a member of each node: a double, or a uint32_t of COLUMN_U32. */
#define COLUMN(name, type, member)                                                                 \
    {                                                                                              \
        name, type, offsetof(struct flame_node, member)                                            \
    }
static const struct column {
    const char *name;
    enum column_type type;
    size_t offset;
} columns[] = {
    COLUMN("parent", COLUMN_U32, parent),
    COLUMN("function", COLUMN_U32, function), /* its place in the header */
    COLUMN("width", COLUMN_F64, sum.width),
    COLUMN("bytes", COLUMN_F64, sum.gained.bytes),
    COLUMN("count", COLUMN_F64, sum.gained.count),
    COLUMN("bytes_variance", COLUMN_F32, sum.gained.bytes_variance),
    COLUMN("count_variance", COLUMN_F32, sum.gained.count_variance),
    COLUMN("samples", COLUMN_F32, sum.gained.samples),
    COLUMN("self_bytes", COLUMN_F64, self.gained.bytes),
    COLUMN("self_count", COLUMN_F64, self.gained.count),
    /* of a difference, and of what was retained */
    COLUMN("before", COLUMN_F64, sum.before),
    COLUMN("after", COLUMN_F64, sum.after),
    COLUMN("lost_bytes", COLUMN_F64, sum.lost.bytes),
    COLUMN("lost_count", COLUMN_F64, sum.lost.count),
    COLUMN("lost_bytes_variance", COLUMN_F32, sum.lost.bytes_variance),
    COLUMN("lost_count_variance", COLUMN_F32, sum.lost.count_variance),
    COLUMN("lost_samples", COLUMN_F32, sum.lost.samples),
    COLUMN("lost_self_bytes", COLUMN_F64, self.lost.bytes),
    COLUMN("lost_self_count", COLUMN_F64, self.lost.count),
};
#define COLUMNS_OF_DUMP 10u
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define ALIGNMENT 8u

static void pad(FILE *out, size_t length, char with)
{
    while (length++ % ALIGNMENT != 0)
        fputc(with, out);
}

static void write_column(FILE *out, const struct flame *flame, const struct column *column)
{
    for (size_t i = 0; i < flame->count; i++) {
        const char *at = (const char *)&flame->nodes[i] + column->offset;
        double value;
        memcpy(&value, at, column->type == COLUMN_U32 ? sizeof(uint32_t) : sizeof(value));
        float rounded = (float)value;
        const void *bytes = column->type == COLUMN_U32   ? (const void *)at
                            : column->type == COLUMN_F32 ? (const void *)&rounded
                                                         : (const void *)&value;
        fwrite(bytes, column_types[column->type].bytes, 1, out);
    }
    pad(out, flame->count * column_types[column->type].bytes, 0);
}

/* --- the header --- */

static void write_estimate(struct json_writer *json, const char *key,
                           const struct profile_estimate *sum)
{
    json_array(json, key);
    json_number(json, NULL, sum->bytes);
    json_number(json, NULL, sum->count);
    json_number(json, NULL, sum->bytes_variance);
    json_number(json, NULL, sum->count_variance);
    json_number(json, NULL, sum->samples);
    json_end_array(json);
}

static void write_total(struct json_writer *json, const char *key, const struct tree *tree,
                        bool counts)
{
    const struct view_graph *graph = &tree->graph;
    const struct view_leaves *leaves = &graph->leaves;
    const struct export_dump *at = &graph->selection.at.dump;
    struct estimate_shown total;
    if (view_selection_is_difference(&graph->selection)) {
        const struct change change = view_leaves_change(leaves, &leaves->total, counts, true);
        total = (struct estimate_shown){change.value, view_leaves_limits(leaves, &change)};
    } else if (view_selection_is_retained(&graph->selection)) {
        total = view_retained_shown(&graph->selection, &leaves->total, counts, true);
    } else {
        total = view_total(at, graph->selection.view, counts);
    }
    json_object(json, key);
    json_number(json, "value", total.value);
    json_number(json, "low", total.interval.low);
    json_number(json, "high", total.interval.high);
    if (view_selection_is_retained(&graph->selection))
        json_number(json, "least", counts ? leaves->total.lost.count : leaves->total.lost.bytes);
    if (leaves->bounds[counts].has_totals) {
        json_number(json, "before", leaves->bounds[counts].before);
        json_number(json, "after", leaves->bounds[counts].after);
    }
    json_end_object(json);
}

/* Write what limits the estimates: no node has more than was counted, and the whole heap may have
 * callsites without samples. */
/* Return what a side may have in a row in which it has no sample. */
static double room_of(const struct change_bounds *bounds, bool gained)
{
    return bounds->apart ? unseen_most(gained ? bounds->gained_unseen : bounds->lost_unseen) : 0;
}

static void write_limits(struct json_writer *json, const struct tree *tree)
{
    const struct view_leaves *leaves = &tree->graph.leaves;
    bool difference = view_selection_is_difference(&tree->graph.selection);
    json_array(json, "most");
    for (int counts = 0; counts < 2; counts++)
        json_number(json, NULL, leaves->bounds[counts].gained_most);
    for (int counts = 0; counts < 2 && difference; counts++)
        json_number(json, NULL, leaves->bounds[counts].lost_most);
    json_end_array(json);
    json_array(json, "unseen");
    for (int counts = 0; counts < 2 && difference; counts++)
        json_number(json, NULL, room_of(&leaves->bounds[counts], true));
    for (int counts = 0; counts < 2 && difference; counts++)
        json_number(json, NULL, room_of(&leaves->bounds[counts], false));
    json_end_array(json);
    if (!leaves->is_of_heap)
        return;
    json_object(json, "whole");
    write_total(json, "bytes", tree, false);
    write_total(json, "count", tree, true);
    json_end_object(json);
}

static void write_columns(struct json_writer *json, size_t count)
{
    json_array(json, "columns");
    for (size_t i = 0; i < count; i++) {
        json_object(json, NULL);
        json_string(json, "name", columns[i].name);
        json_string(json, "type", column_types[columns[i].type].name);
        json_end_object(json);
    }
    json_end_array(json);
}

/* What was retained has its lower bound in the columns of what a difference has lost. */
static size_t column_count(const struct tree *tree)
{
    const struct view_selection *selection = &tree->graph.selection;
    return view_selection_is_difference(selection) || view_selection_is_retained(selection)
               ? COLUMNS
               : COLUMNS_OF_DUMP;
}

static void write_header(FILE *out, const struct tree *tree)
{
    const struct view_leaves *leaves = &tree->graph.leaves;
    bool difference = view_selection_is_difference(&tree->graph.selection);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "nodes", tree->graph.flame.count);
    json_bool(&json, "pruned", tree->graph.flame.pruned);
    json_bool(&json, "difference", difference);
    json_bool(&json, "retained", view_selection_is_retained(&tree->graph.selection));
    json_bool(&json, "counts", export_view_counts_calls(tree->graph.selection.view));
    json_bool(&json, "unknown", leaves->unknown);
    json_bool(&json, "exact", leaves->exact);
    json_bool(&json, "partial", leaves->partial);
    json_array(&json, "intervals");
    json_unsigned(&json, NULL, leaves->sampling.gained_interval_bytes);
    json_unsigned(&json, NULL, leaves->sampling.lost_interval_bytes);
    json_end_array(&json);
    json_array(&json, "calibrations");
    view_write_calibration(&json, NULL, &leaves->sampling.gained_calibration);
    view_write_calibration(&json, NULL, &leaves->sampling.lost_calibration);
    json_end_array(&json);
    write_estimate(&json, "total", &leaves->total.gained);
    write_estimate(&json, "lost_total", &leaves->total.lost);
    if (tree->graph.selection.at.dump.dump != NULL)
        write_limits(&json, tree);
    json_object(&json, "left_out");
    write_estimate(&json, "gained", &leaves->left_out.gained);
    write_estimate(&json, "lost", &leaves->left_out.lost);
    json_number(&json, "share",
                leaves->total.width > 0 ? leaves->left_out.width / leaves->total.width : 0);
    json_end_object(&json);
    write_functions(&json, tree);
    write_groups(&json, tree);
    write_columns(&json, column_count(tree));
    json_array(&json, "marks");
    for (size_t i = 0; tree->graph.marks != NULL && i < tree->graph.flame.count; i++)
        if (tree->graph.marks[i])
            json_unsigned(&json, NULL, i);
    json_end_array(&json);
    json_bool(&json, "judged", view_leaves_are_judged(leaves));
    json_bool(&json, "one_process", leaves->same_process);
    json_end_object(&json);
}

/* --- */

static void write_tree(struct tree *tree, FILE *out)
{
    char *header = NULL;
    size_t length = 0;
    FILE *text = xopen_memstream(&header, &length);
    write_header(text, tree);
    pad(text, sizeof(uint32_t) + (size_t)ftell(text), ' ');
    xclose_memstream(text);
    const uint32_t header_bytes = (uint32_t)length;
    fwrite(&header_bytes, sizeof(header_bytes), 1, out);
    fwrite(header, 1, length, out);
    free(header);
    for (size_t i = 0; i < tree->graph.flame.count; i++) {
        struct flame_node *node = &tree->graph.flame.nodes[i];
        if (node->function != STACK_NONE)
            node->function = tree->numbers[node->function] - 1;
    }
    for (size_t i = 0; i < column_count(tree); i++)
        write_column(out, &tree->graph.flame, &columns[i]);
}

int answer_flame(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error)
{
    struct tree tree = {.profiles = profiles};
    int code = view_graph_make(&tree.graph, profiles, parameters, error);
    if (code == 0) {
        number_functions(&tree);
        write_tree(&tree, out);
    }
    view_graph_free(&tree.graph);
    free(tree.functions);
    free(tree.numbers);
    return code;
}
