/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the graph that a question asks for. */
#include "tools/view/answers/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimate_change.h"
#include "util/xmalloc.h"

const char *const view_direction_names[FLAME_DIRECTIONS] = {"down", "up", "callees", "callers"};

static int parse_direction(const struct view_parameters *parameters, struct view_profiles *profiles,
                           struct flame_request *request, struct error *error)
{
    const char *direction = view_parameter(parameters, "direction"),
               *function = view_parameter(parameters, "function");
    for (enum flame_direction i = 0; i < FLAME_DIRECTIONS && direction != NULL; i++)
        if (strcmp(direction, view_direction_names[i]) == 0) {
            request->direction = i;
            direction = NULL;
        }
    if (direction != NULL)
        return error_set(error, -EINVAL, "there is no direction '%.40s'", direction);
    if (request->direction < FLAME_CALLEES)
        return 0;
    if (function == NULL)
        return error_set(error, -ENOENT, "callers and callees are of a function, which is missing");
    return functions_find(&profiles->functions, function, &request->function, error);
}

static int parse_width(const struct view_parameters *parameters, enum view_width *width,
                       struct error *error)
{
    static const char *const names[VIEW_WIDTHS] = {"change", "larger", "after"};
    const char *text = view_parameter(parameters, "width");
    *width = VIEW_CHANGE;
    while (text != NULL && *width < VIEW_WIDTHS && strcmp(text, names[*width]) != 0)
        ++*width;
    return *width == VIEW_WIDTHS
               ? error_set(error, -EINVAL,
                           "the width of a box is change, larger or after, not '%.40s'", text)
               : 0;
}

static int make_flame(struct view_graph *graph, struct view_profiles *profiles,
                      const struct view_parameters *parameters, struct error *error)
{
    const char *root = view_parameter(parameters, "root"),
               *least = view_parameter(parameters, "least");
    uint32_t path[FLAME_PATH_MAX];
    struct flame_request request = {
        .tree = graph->groups.by != NULL ? &graph->groups.tree : view_profiles_tree(profiles),
        .leaves = graph->leaves.items,
        .leaf_count = graph->leaves.count,
        .function_count = profiles->functions.count + graph->groups.count,
        .path = path,
        .least = least == NULL ? 0 : strtod(least, NULL),
    };
    const struct view_range enough = {0, FLAME_NODES_MAX - 1, 0};
    uint64_t count;
    int code = view_parameter_number(parameters, "enough", enough, &count, error);
    if (code == 0)
        code = parse_direction(parameters, profiles, &request, error);
    request.enough = (size_t)count;
    int64_t length = root == NULL || code < 0 ? code : flame_parse_path(root, path, error);
    if (length < 0)
        return (int)length;
    if (!(request.least >= 0 && request.least <= 1))
        return error_set(error, -EINVAL, "least=%.40s: this is no share from 0 to 1", least);
    request.path_length = (size_t)length;
    graph->direction = request.direction;
    code = flame_make(&request, &graph->flame);
    return code < 0 ? error_set(error, code, "nothing of this selection is below that path") : 0;
}

/* Mark the nodes whose change is beyond chance. */
static void mark(struct view_graph *graph)
{
    const struct view_leaves *leaves = &graph->leaves;
    size_t count = graph->flame.count;
    bool counts = export_view_counts_calls(graph->selection.view);
    struct change *changes = xcalloc(count + 1, sizeof(*changes));
    graph->marks = xcalloc(count + 1, sizeof(*graph->marks));
    for (size_t i = 0; i < count; i++)
        changes[i] = view_leaves_change(leaves, &graph->flame.nodes[i].sum, counts, false);
    view_leaves_mark(leaves, changes, count, graph->marks);
    if (view_graph_is_of_heap(graph)) {
        changes[0] = view_leaves_change(leaves, &leaves->total, counts, true);
        xmalloc_code(change_mark(changes, 1, graph->marks));
    }
    free(changes);
}

static int make(struct view_graph *graph, struct view_profiles *profiles,
                const struct view_parameters *parameters, struct error *error)
{
    const char *by = view_parameter(parameters, "group");
    int code = 0;
    if (by != NULL)
        code = view_groups_make(&graph->groups, &graph->leaves, profiles, &graph->selection, by,
                                error);
    else
        view_leaves_make(&graph->leaves, profiles, &graph->selection);
    if (code == 0)
        code = make_flame(graph, profiles, parameters, error);
    if (code == 0 && view_selection_is_difference(&graph->selection))
        mark(graph);
    return code;
}

int view_graph_make(struct view_graph *graph, struct view_profiles *profiles,
                    const struct view_parameters *parameters, struct error *error)
{
    *graph = (struct view_graph){0};
    int code = view_selection_parse(&graph->selection, profiles, parameters, error);
    if (code == 0)
        code = parse_width(parameters, &graph->selection.width, error);
    if (code == 0)
        code = view_selection_retain(&graph->selection, profiles, parameters, error);
    return code < 0 ? code : make(graph, profiles, parameters, error);
}

void view_graph_free(struct view_graph *graph)
{
    view_selection_clear(&graph->selection);
    view_leaves_free(&graph->leaves);
    view_groups_free(&graph->groups);
    flame_free(&graph->flame);
    free(graph->marks);
    *graph = (struct view_graph){0};
}

const struct view_group *view_graph_group(const struct view_graph *graph,
                                          const struct view_profiles *profiles, uint32_t function)
{
    return function < profiles->functions.count
               ? NULL
               : &graph->groups.items[function - profiles->functions.count];
}

void view_graph_names(const struct view_graph *graph, struct view_profiles *profiles,
                      uint32_t function, struct function_names *names)
{
    const struct view_group *group = view_graph_group(graph, profiles, function);
    if (group == NULL)
        functions_name(&profiles->functions, function, names);
    else
        *names = (struct function_names){.name = group->name,
                                         .full_name = group->name,
                                         .module = "",
                                         .path = "",
                                         .file = "",
                                         .kind = graph->groups.by};
}
