/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of all loaded profiles as one tree of functions: calls of one function from one caller
 * are one node, whatever their addresses and lines. All dumps share the tree, so that another dump
 * or view needs only new sums over the same nodes.
 *
 * A filter that hides frames makes a smaller tree from it (stack_tree_without).
 */
#ifndef HEAPPROFD_VIEW_STACK_TREE_H
#define HEAPPROFD_VIEW_STACK_TREE_H

#include "tools/view/model/functions.h"
#include "util/id_map.h"

#define STACK_NONE UINT32_MAX

struct stack_node {
    uint32_t parent;   /* STACK_NONE: outermost */
    uint32_t function; /* in functions */
};

struct stack_tree {
    struct stack_node *nodes; /* parents before children */
    size_t count, capacity;
    /* The children of node i are children[first[i]] to children[first[i + 1] - 1], and the
     * outermost nodes those of i = count. */
    uint32_t *first, *children;
};

/* Finds the children of a node while its tree is made. */
struct stack_index {
    struct stack_links {
        uint32_t first_child, next_sibling; /* node + 1; 0: none */
    } * links;                              /* by node */
    size_t capacity;
    struct id_map others; /* by parent and function: children that are not linked */
};
void stack_index_free(struct stack_index *index);

/* Add the stacks of a profile: set of_callsites[i] to the node of each callsite i. of_frames:
 * functions_add(). */
void stack_tree_add(struct stack_tree *tree, struct stack_index *index,
                    const struct profile *profile, const uint32_t *of_frames,
                    uint32_t *of_callsites);

/* Which frames are left out of a tree. */
struct stack_hiding {
    const uint8_t *marks; /* by function */
    uint8_t hide;         /* functions with one of these bits are removed from stacks */
    uint8_t show_from;    /* for each of these bits, in order, callers of the outermost function
                           * that has it and is not removed are removed; a stack without such a
                           * function is dropped */
};

/* Make the tree that is left of `from`: set of_nodes[i] to the new node of each node i of `from`,
 * or to STACK_NONE if nothing is left of its stack. */
void stack_tree_without(const struct stack_tree *from, const struct stack_hiding *hiding,
                        struct stack_tree *tree, uint32_t *of_nodes);

/* List the children, after the last node was added. */
void stack_tree_link(struct stack_tree *tree);
void stack_tree_free(struct stack_tree *tree);

#endif
