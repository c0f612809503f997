/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a graph as JSON. */
#include "tools/view/answers/export_json.h"

#include <math.h>

#include "tools/view/answers/graph.h"
#include "tools/view/model/limits.h"
#include "util/base_name.h"
#include "util/json_writer.h"

struct writing {
    struct json_writer json;
    struct view_profiles *profiles;
    const struct view_graph *graph;
    bool is_difference;
};

/* --- figures --- */

static bool is_known(const struct writing *writing, bool counts)
{
    const struct view_selection *selection = &writing->graph->selection;
    uint32_t unknown = selection->at.dump.heap->unknown;
    if (writing->is_difference)
        unknown |= selection->base.dump.heap->unknown;
    return !writing->graph->leaves.unknown && (!counts || (unknown & PROFILE_UNKNOWN_COUNTS) == 0);
}

static void write_value(struct writing *writing, const char *key, double value, bool known)
{
    json_number(&writing->json, key, known ? value : (double)NAN);
}

static void write_limits(struct writing *writing, struct profile_interval limits, bool known)
{
    write_value(writing, "low95", limits.low, known);
    write_value(writing, "high95", limits.high, known);
}

static void write_change(struct writing *writing, const struct flame_sum *sum, bool counts,
                         bool of_heap)
{
    const struct view_leaves *leaves = &writing->graph->leaves;
    const struct change change = view_leaves_change(leaves, sum, counts, of_heap);
    bool known = is_known(writing, counts);
    double gained = counts ? sum->gained.count : sum->gained.bytes,
           lost = counts ? sum->lost.count : sum->lost.bytes;
    write_value(writing, "change", change.value, known);
    write_limits(writing, view_leaves_limits(leaves, &change), known);
    /* Between two processes, which share no sample, these are the figures after and before. */
    const struct change_bounds *bounds = &leaves->bounds[counts];
    bool has_totals = of_heap && bounds->has_totals && !leaves->same_process;
    write_value(writing, "gained", has_totals ? bounds->after : gained, known);
    write_value(writing, "lost", has_totals ? bounds->before : lost, known);
}

static void write_estimate(struct writing *writing, const struct flame_sum *sum, bool counts,
                           bool of_heap)
{
    const struct export_dump *at = &writing->graph->selection.at.dump;
    bool known = is_known(writing, counts);
    const struct estimate_shown shown =
        of_heap ? view_total(at, writing->graph->selection.view, counts)
                : (struct estimate_shown){counts ? sum->gained.count : sum->gained.bytes,
                                          view_limits(&sum->gained, counts, at)};
    write_value(writing, "estimate", shown.value, known);
    write_limits(writing, shown.interval, known);
}

/* Write bytes and count of a sum. of_heap: it is of a whole heap. */
static void write_figures(struct writing *writing, const struct flame_sum *sum, bool of_heap)
{
    for (int counts = 0; counts < 2; counts++) {
        json_object(&writing->json, counts ? "count" : "bytes");
        if (writing->is_difference)
            write_change(writing, sum, counts, of_heap);
        else
            write_estimate(writing, sum, counts, of_heap);
        json_end_object(&writing->json);
    }
}

/* --- the selection --- */

static void write_dump_key(struct writing *writing, const char *key, const struct view_dump *chosen)
{
    struct json_writer *json = &writing->json;
    const struct profile_heap *heap = chosen->dump.heap;
    const struct profile_process *process = &chosen->of->profile->processes[heap->process];
    json_object(json, key);
    json_string(json, "profile", base_name(chosen->of->path));
    json_signed(json, "pid", profile_shown_pid(process));
    json_string(json, "name", process->name);
    json_string(json, "heap", heap->name);
    json_unsigned(json, "dump", (size_t)(chosen->dump.dump - heap->dumps) + 1);
    json_unsigned(json, "dumps", heap->dump_count);
    json_unsigned(json, "interval_bytes", heap->interval_bytes);
    json_end_object(json);
}

static void write_filters(struct writing *writing)
{
    const struct profile_filter *filter = &writing->graph->selection.filter;
    struct json_writer *json = &writing->json;
    json_array(json, "filters");
    for (size_t i = 0; i < filter->count; i++) {
        json_object(json, NULL);
        json_string(json, "kind", profile_filter_names[filter->patterns[i].kind]);
        json_string(json, "expression", filter->patterns[i].text);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_only(struct writing *writing)
{
    const struct view_only *only = &writing->graph->selection.only;
    struct json_writer *json = &writing->json;
    json_array(json, "only");
    for (size_t i = 0; i < only->count; i++) {
        json_object(json, NULL);
        json_string(json, "dimension", view_dimension_names[only->items[i].dimension]);
        json_string(json, "value", only->items[i].text);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_head(struct writing *writing)
{
    const struct view_graph *graph = writing->graph;
    struct json_writer *json = &writing->json;
    write_dump_key(writing, "at", &graph->selection.at);
    if (writing->is_difference)
        write_dump_key(writing, "base", &graph->selection.base);
    json_string(json, "view", export_view_info[graph->selection.view].name);
    json_string(json, "direction", view_direction_names[graph->direction]);
    write_filters(writing);
    write_only(writing);
    json_object(json, "total");
    write_figures(writing, &graph->leaves.total, graph->leaves.is_of_heap);
    json_end_object(json);
    json_object(json, "left_out");
    write_figures(writing, &graph->leaves.left_out, false);
    json_end_object(json);
    json_bool(json, "pruned", graph->flame.pruned);
}

/* --- nodes --- */

static void write_function(struct writing *writing, uint32_t function)
{
    struct json_writer *json = &writing->json;
    struct function_names names;
    functions_name(&writing->profiles->functions, function, &names);
    json_string(json, "name", names.full_name);
    json_string(json, "mapping", names.path);
    if (*names.file != '\0') {
        json_string(json, "file", names.file);
        json_unsigned(json, "line", names.line);
    }
    if (*names.kind != '\0')
        json_string(json, "kind", names.kind);
}

/* Nodes are a flat list with the number of their parent: stacks can be deeper than parsers allow
 * nested objects to be. */
static void write_node(struct writing *writing, size_t index)
{
    const struct view_graph *graph = writing->graph;
    const struct flame_node *node = &graph->flame.nodes[index];
    struct json_writer *json = &writing->json;
    json_line(json);
    json_object(json, NULL);
    if (node->parent == STACK_NONE)
        json_null(json, "parent");
    else
        json_unsigned(json, "parent", node->parent);
    if (node->function == STACK_NONE)
        json_null(json, "name");
    else
        write_function(writing, node->function);
    write_figures(writing, &node->sum, index == 0 && view_graph_is_of_heap(graph));
    json_object(json, "self");
    write_figures(writing, &node->self, false);
    json_end_object(json);
    write_value(writing, "samples", node->sum.gained.samples + node->sum.lost.samples, true);
    if (graph->marks != NULL)
        json_bool(json, "beyond_chance", graph->marks[index]);
    json_end_object(json);
}

int export_json(struct view_profiles *profiles, const struct view_parameters *parameters, FILE *out,
                struct error *error)
{
    struct view_graph graph;
    int code = view_graph_make(&graph, profiles, parameters, error);
    if (code == 0) {
        struct writing writing = {json_begin(out), profiles, &graph,
                                  view_selection_is_difference(&graph.selection)};
        json_object(&writing.json, NULL);
        write_head(&writing);
        json_array(&writing.json, "nodes");
        for (size_t i = 0; i < graph.flame.count; i++)
            write_node(&writing, i);
        json_end_array(&writing.json);
        json_end_object(&writing.json);
    }
    view_graph_free(&graph);
    return code;
}
