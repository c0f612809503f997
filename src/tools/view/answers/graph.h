/* SPDX-License-Identifier: Apache-2.0 */
/* The flame graph that a question asks for: of its selection, in its direction, below its root. */
#ifndef HEAPPROFD_VIEW_GRAPH_H
#define HEAPPROFD_VIEW_GRAPH_H

#include "tools/view/answers/flame.h"
#include "tools/view/answers/groups.h"

extern const char *const view_direction_names[FLAME_DIRECTIONS];

struct view_graph {
    struct view_selection selection;
    struct view_leaves leaves;
    struct view_groups groups; /* with groups, the leaves are at nodes of their tree */
    struct flame flame;
    enum flame_direction direction;
    bool *marks; /* by node: the change is beyond chance; NULL: no difference */
};

/* Parse the question and make its graph. Return 0, -EINVAL or -ENOENT with *error set.
 * view_graph_free() is needed in any case. */
int view_graph_make(struct view_graph *graph, struct view_profiles *profiles,
                    const struct view_parameters *parameters, struct error *error);
void view_graph_free(struct view_graph *graph);

/* Return whether the root is the whole heap. */
static inline bool view_graph_is_of_heap(const struct view_graph *graph)
{
    const struct view_leaves *leaves = &graph->leaves;
    return leaves->is_of_heap && !(leaves->left_out.width > 0) && graph->flame.count > 0 &&
           graph->flame.nodes[0].function == STACK_NONE;
}

/* Return the group that a node's function stands for; NULL: it is a function. */
const struct view_group *view_graph_group(const struct view_graph *graph,
                                          const struct view_profiles *profiles, uint32_t function);
/* Fill in the names of a node's function; of a group, its kind is what the graph is grouped by. */
void view_graph_names(const struct view_graph *graph, struct view_profiles *profiles,
                      uint32_t function, struct function_names *names);

#endif
