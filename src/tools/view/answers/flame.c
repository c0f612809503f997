/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a flame graph from the root: expands each group of stack nodes that is wide enough to be
 * seen. This computes only widths. The other sums follow at the end, for the nodes of the finished
 * graph: each leaf is added to the deepest node that contains it, and each node to its parent.
 */
#include "tools/view/answers/flame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/xmalloc.h"

/* Limit of members that are visited for one graph: half a second of work. A deep bottom-up graph of
 * many stacks would visit each frame of each stack. */
#define VISITS_MAX 30000000u

/* If the whole graph is too large, groups below this share of the root are left out, and the share
 * grows by this factor until the graph fits. A screen shows some 4,000 boxes side by side. */
#define LEAST_FIRST 1e-5
#define LEAST_FACTOR 8

/* A stack node in a group. Its source has the width: downwards, the node itself; upwards, the leaf
 * (FLAME_UP) or the node of the function (FLAME_CALLERS) from which the way up began. */
struct member {
    uint32_t at, source;
};

struct group {
    size_t first, count; /* members */
    uint32_t function;   /* STACK_NONE: the root of a whole graph */
    double width;
};

struct maker {
    const struct flame_request *request;
    bool upwards;
    double *widths;         /* by stack node, with all below it; NULL for FLAME_UP */
    struct member *members; /* upwards, those of a group are inside its parent's */
    size_t member_count, member_capacity;
    struct member *scratch;
    size_t scratch_capacity;
    struct group *children; /* of the group that is expanded */
    size_t child_count, child_capacity;
    uint32_t *child_of; /* by function: index in children + 1 */
    /* By source: the last node of the graph that it is in, and LAST_STEP if its stacks end there.
     */
    uint32_t *places;
    size_t source_count;
    uint64_t visits;
};
#define LAST_STEP (1u << 31)

static double width_of(const struct maker *maker, uint32_t source)
{
    return maker->widths == NULL ? maker->request->leaves[source].own.width : maker->widths[source];
}

int64_t flame_parse_path(const char *text, uint32_t path[FLAME_PATH_MAX], struct error *error)
{
    size_t count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        char *end;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : UINT32_MAX;
        if (number >= UINT32_MAX || count == FLAME_PATH_MAX || (*end != '.' && *end != '\0'))
            return error_set(error, -EINVAL, "root: at character %zu there is no function's number",
                             (size_t)(at - text) + 1);
        path[count] = (uint32_t)number;
        at = *end == '.' ? end + 1 : end;
    }
    return (int64_t)count;
}

/* --- one step --- */

static struct group *child_of(struct maker *maker, uint32_t function)
{
    if (maker->child_of[function] == 0) {
        const struct group child = {.function = function};
        XARRAY_ADD(&maker->children, &maker->child_count, &maker->child_capacity, child);
        maker->child_of[function] = (uint32_t)maker->child_count;
    }
    return &maker->children[maker->child_of[function] - 1];
}

static void add_to_child(struct maker *maker, struct member member, size_t place)
{
    struct group *child = child_of(maker, maker->request->tree->nodes[member.at].function);
    child->count++;
    child->width += width_of(maker, member.source);
    maker->scratch[place] = member;
}

/* Return the stack nodes that follow a member, as a range of tree->children or, upwards, in *above
 * and a range of one or none. The first step upwards is into the function that allocates. */
struct steps {
    size_t first, last;
};

static struct steps steps_of(const struct maker *maker, const struct group *group,
                             struct member member, uint32_t *above)
{
    const struct stack_tree *tree = maker->request->tree;
    if (!maker->upwards)
        return (struct steps){tree->first[member.at], tree->first[member.at + 1]};
    *above = group->function == STACK_NONE ? maker->request->leaves[member.source].node
                                           : tree->nodes[member.at].parent;
    return (struct steps){0, *above != STACK_NONE};
}

/* Collect the next stack nodes of a group in `scratch`. Return their number. */
static size_t flame_step(struct maker *maker, const struct group *group)
{
    size_t count = 0;
    for (size_t i = group->first; i < group->first + group->count; i++) {
        struct member member = maker->members[i];
        struct steps steps = steps_of(maker, group, member, &member.at);
        size_t more = steps.last - steps.first;
        XARRAY_RESERVE(&maker->scratch, &maker->scratch_capacity, count, more);
        for (size_t j = steps.first; j < steps.last; j++, count++) {
            if (!maker->upwards)
                member.at = member.source = maker->request->tree->children[j];
            add_to_child(maker, member, count);
        }
    }
    maker->visits += count + group->count;
    return count;
}

/* Put the members in `scratch` where their groups are. */
static void place_members(struct maker *maker, const struct group *group, size_t count)
{
    size_t at = maker->upwards ? group->first : maker->member_count;
    if (!maker->upwards) {
        XARRAY_RESERVE(&maker->members, &maker->member_capacity, maker->member_count, count);
        maker->member_count += count;
    }
    for (size_t i = 0; i < maker->child_count; i++) {
        maker->children[i].first = at;
        at += maker->children[i].count;
        maker->children[i].count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t function = maker->request->tree->nodes[maker->scratch[i].at].function;
        struct group *child = &maker->children[maker->child_of[function] - 1];
        maker->members[child->first + child->count++] = maker->scratch[i];
    }
}

/* Compare for qsort: the widest first, then by number, so that equal ones keep their places. */
static int compare_groups(const void *a, const void *b)
{
    const struct group *left = a, *right = b;
    double one = flame_rank(left->width), other = flame_rank(right->width);
    if (one != other)
        return one > other ? -1 : 1;
    return left->function > right->function ? 1 : -(left->function < right->function);
}

/* Make the children of a group. */
static void expand(struct maker *maker, const struct group *group)
{
    maker->child_count = 0;
    place_members(maker, group, flame_step(maker, group));
    for (size_t i = 0; i < maker->child_count; i++)
        maker->child_of[maker->children[i].function] = 0;
    if (maker->child_count > 1)
        qsort(maker->children, maker->child_count, sizeof(*maker->children), compare_groups);
}

/* --- the graph --- */

struct graph {
    struct flame *flame;
    struct group *groups; /* by node of the flame graph */
    size_t capacity;
};

static bool is_last_step(const struct maker *maker, const struct group *group, uint32_t at)
{
    if (group->function == STACK_NONE)
        return false;
    return !maker->upwards || maker->request->tree->nodes[at].parent == STACK_NONE;
}

static void add_node(const struct maker *maker, struct graph *graph, const struct group *group,
                     uint32_t parent)
{
    const struct flame_node node = {.parent = parent, .function = group->function};
    struct flame *flame = graph->flame;
    for (size_t i = group->first; i < group->first + group->count; i++) {
        const struct member *member = &maker->members[i];
        maker->places[member->source] =
            (uint32_t)flame->count | (is_last_step(maker, group, member->at) ? LAST_STEP : 0);
    }
    XARRAY_RESERVE(&graph->groups, &graph->capacity, flame->count, 1);
    graph->groups[flame->count] = *group;
    XARRAY_ADD(&flame->nodes, &flame->count, &flame->capacity, node);
}

/* What is left out of a graph, as a share of the root, and how many nodes it can have. */
struct bounds {
    double least;
    size_t most;
};

/* Return the bounds to try after these, with which the graph was too large. */
static struct bounds narrowed(const struct bounds *bounds, const struct flame_request *request)
{
    if (bounds->most < FLAME_NODES_MAX)
        return (struct bounds){request->least, FLAME_NODES_MAX};
    return (struct bounds){bounds->least < LEAST_FIRST ? LEAST_FIRST : bounds->least * LEAST_FACTOR,
                           bounds->most};
}

/* Expand what is wide enough. Return 0, or -E2BIG if that is too much. */
static int flame_fill(struct maker *maker, const struct group *root, const struct bounds *bounds,
                      struct graph *graph)
{
    const double least = bounds->least * root->width;
    struct flame *flame = graph->flame;
    flame->count = 0;
    flame->pruned = false;
    add_node(maker, graph, root, STACK_NONE);
    const size_t expanded_most = maker->request->one_level ? 1 : SIZE_MAX;
    for (size_t i = 0; i < flame->count && i < expanded_most; i++) {
        const struct group group = graph->groups[i];
        if (maker->visits > VISITS_MAX) {
            flame->pruned = true;
            break;
        }
        expand(maker, &group);
        for (size_t j = 0; j < maker->child_count; j++) {
            const struct group *child = &maker->children[j];
            if (child->width <= 0 || child->width < least) {
                flame->pruned |= child->width > 0;
                continue;
            }
            if (flame->count == bounds->most)
                return -E2BIG;
            add_node(maker, graph, child, (uint32_t)i);
        }
    }
    return 0;
}

/* Go down the path. */
static int follow_path(struct maker *maker, struct group *root)
{
    for (size_t i = 0; i < maker->request->path_length; i++) {
        expand(maker, root);
        const struct group *found = NULL;
        for (size_t j = 0; j < maker->child_count && found == NULL; j++)
            if (maker->children[j].function == maker->request->path[i])
                found = &maker->children[j];
        if (found == NULL)
            return -ENOENT;
        *root = *found;
    }
    return 0;
}

/* --- where to begin --- */

static void begin_with(struct maker *maker, struct group *root, struct member member, double width)
{
    root->count++;
    root->width += width;
    XARRAY_ADD(&maker->members, &maker->member_count, &maker->member_capacity, member);
}

/* Begin with the outermost nodes of a function: stacks in which it is recursive count once. */
static int begin_with_function(struct maker *maker, struct group *root)
{
    const struct stack_tree *tree = maker->request->tree;
    uint8_t *inside = xcalloc(tree->count + 1, 1);
    root->function = maker->request->function;
    for (size_t i = 0; i < tree->count; i++) {
        const struct stack_node *node = &tree->nodes[i];
        inside[i] = node->parent != STACK_NONE && inside[node->parent];
        if (inside[i] || node->function != root->function)
            continue;
        inside[i] = 1;
        begin_with(maker, root, (struct member){(uint32_t)i, (uint32_t)i}, maker->widths[i]);
    }
    free(inside);
    return root->count == 0 ? -ENOENT : 0;
}

/* Begin above the outermost functions, or below those that allocate. */
static int flame_begin(struct maker *maker, struct group *root)
{
    const struct flame_request *request = maker->request;
    const uint32_t all = (uint32_t)request->tree->count;
    *root = (struct group){.function = STACK_NONE};
    maker->member_count = 0;
    maker->visits = 0;
    memset(maker->places, 0xff, maker->source_count * sizeof(*maker->places));
    if (request->direction >= FLAME_CALLEES)
        return begin_with_function(maker, root);
    /* Downwards the root is the node whose children are the outermost functions. */
    if (!maker->upwards)
        begin_with(maker, root, (struct member){all, all}, maker->widths[all]);
    for (size_t i = 0; i < request->leaf_count && maker->upwards; i++)
        begin_with(maker, root, (struct member){request->leaves[i].node, (uint32_t)i},
                   request->leaves[i].own.width);
    return 0;
}

/* Return the width of each stack node with all below it, and of all of them after the last one. */
static double *widths_below(const struct flame_request *request)
{
    const struct stack_tree *tree = request->tree;
    double *widths = xcalloc(tree->count + 1, sizeof(*widths));
    for (size_t i = 0; i < request->leaf_count; i++)
        widths[request->leaves[i].node] = request->leaves[i].own.width;
    for (size_t i = tree->count; i-- > 0;) {
        uint32_t parent = tree->nodes[i].parent;
        widths[parent == STACK_NONE ? tree->count : parent] += widths[i];
    }
    return widths;
}

static void make_tables(struct maker *maker)
{
    const struct flame_request *request = maker->request;
    bool by_leaf = request->direction == FLAME_UP;
    maker->child_of = xcalloc(request->function_count + 1, sizeof(*maker->child_of));
    maker->source_count = (by_leaf ? request->leaf_count : request->tree->count) + 1;
    maker->places = xreallocarray(NULL, maker->source_count, sizeof(*maker->places));
    if (!by_leaf)
        maker->widths = widths_below(request);
}

static void free_tables(struct maker *maker)
{
    free(maker->widths);
    free(maker->places);
    free(maker->members);
    free(maker->scratch);
    free(maker->children);
    free(maker->child_of);
}

/* --- the sums --- */

/* Let each stack node without a place be in that of its caller. */
static void inherit_places(struct maker *maker)
{
    const struct stack_tree *tree = maker->request->tree;
    for (size_t i = 0; i < tree->count; i++) {
        if (maker->places[i] != STACK_NONE)
            continue;
        uint32_t parent = tree->nodes[i].parent;
        uint32_t place = maker->places[parent == STACK_NONE ? tree->count : parent];
        /* Downwards, the stacks do not end at the node that is shown, but below it. */
        maker->places[i] = place == STACK_NONE || maker->upwards ? place : place & ~LAST_STEP;
    }
}

static void sum_up(struct maker *maker, struct flame *flame)
{
    const struct flame_request *request = maker->request;
    bool by_leaf = request->direction == FLAME_UP;
    if (!by_leaf)
        inherit_places(maker);
    for (size_t i = 0; i < request->leaf_count; i++) {
        const struct flame_leaf *leaf = &request->leaves[i];
        uint32_t place = maker->places[by_leaf ? i : leaf->node];
        if (place == STACK_NONE)
            continue;
        struct flame_node *node = &flame->nodes[place & ~LAST_STEP];
        flame_sum_add(&node->sum, &leaf->own);
        if ((place & LAST_STEP) != 0)
            flame_sum_add(&node->self, &leaf->own);
    }
    for (size_t i = flame->count; i-- > 1;)
        flame_sum_add(&flame->nodes[flame->nodes[i].parent].sum, &flame->nodes[i].sum);
}

/* --- */

int flame_make(const struct flame_request *request, struct flame *flame)
{
    struct maker maker = {
        .request = request,
        .upwards = request->direction == FLAME_UP || request->direction == FLAME_CALLERS,
    };
    struct graph graph = {.flame = flame};
    struct bounds bounds = {request->enough > 0 ? 0 : request->least,
                            request->enough > 0 ? request->enough : FLAME_NODES_MAX};
    *flame = (struct flame){0};
    int code;
    make_tables(&maker);
    do {
        struct group root;
        code = flame_begin(&maker, &root);
        if (code == 0)
            code = follow_path(&maker, &root);
        if (code == 0)
            code = flame_fill(&maker, &root, &bounds, &graph);
        bounds = narrowed(&bounds, request);
    } while (code == -E2BIG);
    if (code == 0)
        sum_up(&maker, flame);
    free(graph.groups);
    free_tables(&maker);
    if (code < 0)
        flame_free(flame);
    return code;
}

void flame_free(struct flame *flame)
{
    free(flame->nodes);
    *flame = (struct flame){0};
}
