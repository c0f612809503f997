/* SPDX-License-Identifier: Apache-2.0 */
/* Walk each stack up to the first marked callsite, then list the marked ones. */
#include "profile/callsite_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "util/array.h"

/* If fewer than one in SPARSE callsites are marked, sorting them costs less than a scan of all
 * callsites of the profile. */
#define SPARSE 16u

int callsite_nodes_begin(struct callsite_nodes *nodes, const struct profile *profile)
{
    *nodes = (struct callsite_nodes){.profile = profile, .last_marked = 1};
    nodes->places = calloc(profile->callsite_count + 1, sizeof(*nodes->places));
    return nodes->places == NULL ? -ENOMEM : 0;
}

bool callsite_nodes_mark(struct callsite_nodes *nodes, uint32_t callsite)
{
    if (nodes->places[callsite] != 0)
        return false;
    nodes->places[callsite] = nodes->last_marked;
    nodes->last_marked = callsite + 2;
    nodes->count++;
    return true;
}

void callsite_nodes_mark_dump(struct callsite_nodes *nodes, const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t at = dump->samples[i]->callsite;
        while (at != PROFILE_NONE && callsite_nodes_mark(nodes, at))
            at = nodes->profile->callsites[at].parent;
    }
}

static int compare_callsites(const void *left_pointer, const void *right_pointer)
{
    const struct listed_callsite *left = left_pointer, *right = right_pointer;
    return left->callsite < right->callsite ? -1 : left->callsite > right->callsite;
}

/* Fill in the nodes' callsites, a parent before its children. */
static void order_nodes(struct callsite_nodes *nodes)
{
    size_t all = nodes->profile->callsite_count, count = 0;
    if (nodes->count >= all / SPARSE) {
        for (size_t i = 0; i < all; i++)
            if (nodes->places[i] != 0)
                nodes->nodes[count++].callsite = (uint32_t)i;
        return;
    }
    for (uint32_t at = nodes->last_marked; at != 1; at = nodes->places[at - 2])
        nodes->nodes[count++].callsite = at - 2;
    if (count > 1)
        qsort(nodes->nodes, count, sizeof(*nodes->nodes), compare_callsites);
}

int callsite_nodes_list(struct callsite_nodes *nodes)
{
    const struct profile_callsite *callsites = nodes->profile->callsites;
    if (ARRAY_RESERVE(&nodes->nodes, &nodes->capacity, 0, nodes->count + 1) < 0)
        return -ENOMEM;
    order_nodes(nodes);
    for (size_t i = 0; i < nodes->count; i++) {
        uint32_t callsite = nodes->nodes[i].callsite, parent = callsites[callsite].parent;
        nodes->nodes[i] = (struct listed_callsite){
            .callsite = callsite,
            .parent = parent == PROFILE_NONE ? PROFILE_NONE : nodes->places[parent] - 1,
        };
        nodes->places[callsite] = (uint32_t)i + 1;
    }
    nodes->last_marked = 1;
    return 0;
}

void callsite_nodes_clear(struct callsite_nodes *nodes)
{
    if (nodes->last_marked == 1)
        for (size_t i = 0; i < nodes->count; i++)
            nodes->places[nodes->nodes[i].callsite] = 0;
    while (nodes->last_marked != 1) {
        uint32_t *place = &nodes->places[nodes->last_marked - 2];
        nodes->last_marked = *place;
        *place = 0;
    }
    nodes->count = 0;
}

void callsite_nodes_free(struct callsite_nodes *nodes)
{
    free(nodes->places);
    free(nodes->nodes);
}
