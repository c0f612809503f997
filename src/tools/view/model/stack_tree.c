/* SPDX-License-Identifier: Apache-2.0 */
/* Builds trees of stacks, whole and without hidden frames. */
#include "tools/view/model/stack_tree.h"

#include <stdlib.h>

#include "util/xmalloc.h"

/* Children of a node that are searched one by one. The others are in a table, which costs a cache
 * miss each time; most nodes have few children, which were often added one after the other. */
#define LISTED_MOST 8u

static uint32_t add_node(struct stack_tree *tree, struct stack_index *index, uint32_t parent,
                         uint32_t function)
{
    const struct stack_node node = {parent, function};
    if (tree->count >= STACK_NONE)
        xmalloc_fail(0);
    XARRAY_ADD(&tree->nodes, &tree->count, &tree->capacity, node);
    index->links[tree->count - 1] = (struct stack_links){0};
    return (uint32_t)tree->count - 1;
}

static uint32_t node_in_table(struct stack_tree *tree, struct stack_index *index, uint32_t parent,
                              uint32_t function)
{
    uint64_t key = (uint64_t)parent << 32 | function;
    uint32_t at = id_map_find(&index->others, key);
    if (at != ID_MAP_NONE)
        return at;
    at = add_node(tree, index, parent, function);
    xmalloc_code(id_map_set(&index->others, key, at));
    return at;
}

/* Return the node of a function that is called from `parent`. */
static uint32_t node_below(struct stack_tree *tree, struct stack_index *index, uint32_t parent,
                           uint32_t function)
{
    XARRAY_RESERVE(&index->links, &index->capacity, tree->count, 1);
    if (parent == STACK_NONE)
        return node_in_table(tree, index, parent, function);
    uint32_t *link = &index->links[parent].first_child;
    for (unsigned i = 0; i < LISTED_MOST; i++) {
        if (*link == 0) {
            uint32_t added = add_node(tree, index, parent, function);
            *link = added + 1;
            return added;
        }
        if (tree->nodes[*link - 1].function == function)
            return *link - 1;
        link = &index->links[*link - 1].next_sibling;
    }
    return node_in_table(tree, index, parent, function);
}

void stack_index_free(struct stack_index *index)
{
    free(index->links);
    id_map_free(&index->others);
    *index = (struct stack_index){0};
}

void stack_tree_add(struct stack_tree *tree, struct stack_index *index,
                    const struct profile *profile, const uint32_t *of_frames,
                    uint32_t *of_callsites)
{
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent =
            callsite->parent == PROFILE_NONE ? STACK_NONE : of_callsites[callsite->parent];
        of_callsites[i] = node_below(tree, index, parent, of_frames[callsite->frame]);
    }
}

void stack_tree_without(const struct stack_tree *from, const struct stack_hiding *hiding,
                        struct stack_tree *tree, uint32_t *of_nodes)
{
    struct stack_index index = {0};
    uint8_t *found = xcalloc(from->count + 1, 1); /* the bits of show_from on each stack */
    for (size_t i = 0; i < from->count; i++) {
        const struct stack_node *node = &from->nodes[i];
        uint8_t marks = hiding->marks[node->function];
        uint32_t above = node->parent == STACK_NONE ? STACK_NONE : of_nodes[node->parent];
        uint8_t before = node->parent == STACK_NONE ? 0 : found[node->parent];
        /* A pattern counts once those before it have matched: each sees what they left. */
        found[i] = before;
        for (uint8_t bit = 1; bit != 0; bit = (uint8_t)(bit << 1)) {
            if ((hiding->show_from & bit) == 0 || (found[i] & bit) != 0)
                continue;
            if ((marks & bit) == 0 || (marks & hiding->hide) != 0)
                break;
            found[i] |= bit;
        }
        if (found[i] != before)
            above = STACK_NONE;
        of_nodes[i] = above;
        if ((found[i] & hiding->show_from) != hiding->show_from || (marks & hiding->hide) != 0)
            continue;
        of_nodes[i] = node_below(tree, &index, above, node->function);
    }
    free(found);
    stack_index_free(&index);
}

void stack_tree_link(struct stack_tree *tree)
{
    size_t count = tree->count;
    uint32_t *first = xcalloc(count + 3, sizeof(*first));
    uint32_t *children = xcalloc(count + 1, sizeof(*children));
    /* Count into the place after the next, so that filling moves each first to its own. */
    for (size_t i = 0; i < count; i++)
        first[(tree->nodes[i].parent == STACK_NONE ? count : tree->nodes[i].parent) + 2]++;
    for (size_t i = 2; i < count + 3; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < count; i++)
        children[first[(tree->nodes[i].parent == STACK_NONE ? count : tree->nodes[i].parent) +
                       1]++] = (uint32_t)i;
    tree->first = first;
    tree->children = children;
}

void stack_tree_free(struct stack_tree *tree)
{
    free(tree->nodes);
    free(tree->first);
    free(tree->children);
    *tree = (struct stack_tree){0};
}
