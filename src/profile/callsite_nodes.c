/* SPDX-License-Identifier: Apache-2.0 */
/* See callsite_nodes.h. */
#include "profile/callsite_nodes.h"

#include <errno.h>
#include <stdlib.h>

int callsite_nodes_begin(struct callsite_nodes *nodes, const struct profile *profile)
{
    *nodes = (struct callsite_nodes){.profile = profile};
    nodes->places = calloc(profile->callsite_count + 1, sizeof(*nodes->places));
    return nodes->places == NULL ? -ENOMEM : 0;
}

bool callsite_nodes_mark(struct callsite_nodes *nodes, uint32_t callsite)
{
    bool marked = nodes->places[callsite] != 0;
    nodes->places[callsite] = 1;
    nodes->count += !marked;
    return !marked;
}

int callsite_nodes_list(struct callsite_nodes *nodes)
{
    const struct profile_callsite *callsites = nodes->profile->callsites;
    uint32_t count = 0;
    nodes->nodes = malloc((nodes->count + 1) * sizeof(*nodes->nodes));
    if (nodes->nodes == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < nodes->profile->callsite_count; i++) {
        if (nodes->places[i] == 0)
            continue;
        uint32_t parent = callsites[i].parent;
        nodes->nodes[count] = (struct callsite_node){
            .callsite = (uint32_t)i,
            .parent = parent == PROFILE_NONE ? 0 : nodes->places[parent],
        };
        nodes->places[i] = ++count;
    }
    return 0;
}

/* Return the index + 1 of the first node without a parent. */
static uint32_t link_children(struct callsite_nodes *nodes)
{
    uint32_t first_root = 0;
    for (size_t i = nodes->count; i-- > 0;) {
        struct callsite_node *node = &nodes->nodes[i];
        uint32_t *list =
            node->parent == 0 ? &first_root : &nodes->nodes[node->parent - 1].first_child;
        node->next_sibling = *list;
        *list = (uint32_t)i + 1;
    }
    return first_root;
}

int callsite_nodes_find_outermost(struct callsite_nodes *nodes,
                                  uint64_t (*number)(const void *context, uint32_t frame),
                                  const void *context, size_t most)
{
    const struct profile_callsite *callsites = nodes->profile->callsites;
    uint32_t *above = calloc(most + 1, sizeof(*above)); /* by number: how many are on the path */
    if (above == NULL)
        return -ENOMEM;
    for (uint32_t at = link_children(nodes); at != 0;) {
        struct callsite_node *node = &nodes->nodes[at - 1];
        node->outermost = above[number(context, callsites[node->callsite].frame)]++ == 0;
        if (node->first_child != 0) {
            at = node->first_child;
            continue;
        }
        for (; at != 0; at = node->parent) {
            node = &nodes->nodes[at - 1];
            above[number(context, callsites[node->callsite].frame)]--;
            if (node->next_sibling != 0)
                break;
        }
        at = at == 0 ? 0 : node->next_sibling;
    }
    free(above);
    return 0;
}

void callsite_nodes_free(struct callsite_nodes *nodes)
{
    free(nodes->places);
    free(nodes->nodes);
}
