/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of functions with their figures, as flame graphs show them: top-down from the outermost
 * function, bottom-up from the function that allocates, and the callees or callers of one function.
 *
 * A node of such a tree is a group of nodes of the stack tree: those that are reached by the same
 * functions. One step down goes to the children of all of them, one step up to their parents; the
 * nodes that are reached form a group for each function. Only groups that are large enough to be
 * seen are made, so the cost depends on what is shown. When the user zooms, the page asks for the
 * rest.
 */
#ifndef HEAPPROFD_VIEW_FLAME_H
#define HEAPPROFD_VIEW_FLAME_H

#include <string.h>

#include "profile/confidence_interval.h"
#include "tools/view/model/stack_tree.h"
#include "util/error.h"

/* A sum over stacks. In a difference, `gained` is what only the later side has, and `lost` what
 * only the earlier side has; in a single dump, `gained` is the figure. Of what was retained,
 * `gained` is the upper bound and `lost` the lower one. */
struct flame_sum {
    struct profile_estimate gained, lost;
    double before, after; /* of a difference, in the unit of the view: what each side has in all */
    /* Width of a box in the graph: the figure; in a difference, the sum of what enum view_width
     * says of each stack. So the widths of parts add up to that of the whole. */
    double width;
};

/* The figures of the stacks that end at a node of the stack tree; at most one for each node. */
struct flame_leaf {
    uint32_t node;
    struct flame_sum own;
};

enum flame_direction { FLAME_DOWN, FLAME_UP, FLAME_CALLEES, FLAME_CALLERS, FLAME_DIRECTIONS };

struct flame_request {
    const struct stack_tree *tree;
    const struct flame_leaf *leaves;
    size_t leaf_count;
    size_t function_count;
    enum flame_direction direction;
    uint32_t function; /* of FLAME_CALLEES and FLAME_CALLERS */
    /* Functions from the root: the graph shows what is below them. */
    const uint32_t *path;
    size_t path_length;
    /* Groups below this share of the root are left out. Raised if there are too many groups. */
    double least;
    size_t enough;  /* all groups are made if there are no more than this; 0: no such number */
    bool one_level; /* only the root and its children */
};

#define FLAME_NODES_MAX 200000u

struct flame_node {
    uint32_t parent;   /* index; STACK_NONE: the root */
    uint32_t function; /* STACK_NONE: the root of a whole graph */
    struct flame_sum sum;
    struct flame_sum self; /* of stacks that end here, in this direction */
};

struct flame {
    struct flame_node *nodes; /* breadth first; siblings by width, the largest first */
    size_t count, capacity;
    bool pruned; /* something was left out */
};

/* Parse a path "5.17.3". Return its length or -EINVAL. */
#define FLAME_PATH_MAX 4096u
int64_t flame_parse_path(const char *text, uint32_t path[FLAME_PATH_MAX], struct error *error);

/* Make a graph. Return 0, or -ENOENT if there is no such path or function. */
int flame_make(const struct flame_request *request, struct flame *flame);
void flame_free(struct flame *flame);

/* Return a figure to order by, rounded to 40 of its 53 bits: nearly always, figures are equal then
 * that differ only because they were added up in another order, as in another direction. */
static inline double flame_rank(double figure)
{
    uint64_t bits;
    memcpy(&bits, &figure, sizeof(bits));
    bits = (bits + (UINT64_C(1) << 12)) & ~((UINT64_C(1) << 13) - 1);
    memcpy(&figure, &bits, sizeof(bits));
    return figure;
}

static inline void flame_sum_add(struct flame_sum *sum, const struct flame_sum *more)
{
    profile_estimate_add(&sum->gained, &more->gained);
    profile_estimate_add(&sum->lost, &more->lost);
    sum->before += more->before;
    sum->after += more->after;
    sum->width += more->width;
}

#endif
