/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callsites on the stacks of some samples, each once, parents before children. So sums over
 * subtrees take one pass from the last node to the first. Walking up from each sample would cost
 * the length of all stacks: a chain of n callsites with a sample each has n * n / 2 frames.
 */
#ifndef HEAPPROFD_PROFILE_CALLSITE_NODES_H
#define HEAPPROFD_PROFILE_CALLSITE_NODES_H

#include "profile/profile.h"

struct callsite_nodes {
    const struct profile *profile;
    /* By callsite: 0 if it is not marked. After listing: index + 1 of its node. Before: a linked
     * list of the marked callsites, as the callsite marked before it + 2, or 1 at the end. */
    uint32_t *places;
    struct listed_callsite {
        uint32_t callsite;
        uint32_t parent, first_child, next_sibling; /* index + 1; 0: none */
        bool outermost; /* no caller has the same number (callsite_nodes_find_outermost) */
    } * nodes;
    size_t count, capacity;
    uint32_t last_marked; /* head of that list: callsite + 2; 1: empty */
    uint32_t *above;      /* by number: how many nodes of the current path have it */
    size_t above_count;
};

/* Begin with nothing marked. Return 0 or -ENOMEM, like all functions here that return int. Call
 * callsite_nodes_free() after a failure, too. */
int callsite_nodes_begin(struct callsite_nodes *nodes, const struct profile *profile);
/* Mark a callsite. Return false if it was marked before; then its callers were, too. */
bool callsite_nodes_mark(struct callsite_nodes *nodes, uint32_t callsite);
/* Mark the callsites on the stacks of a dump. */
void callsite_nodes_mark_dump(struct callsite_nodes *nodes, const struct profile_dump *dump);
/* List the marked callsites. */
int callsite_nodes_list(struct callsite_nodes *nodes);
/* Unmark all callsites. Costs time for the marked ones only. */
void callsite_nodes_clear(struct callsite_nodes *nodes);
/* Set `outermost` of each node. number() gives each frame a number below `most`, for example that
 * of its function. */
int callsite_nodes_find_outermost(struct callsite_nodes *nodes,
                                  uint64_t (*number)(const void *context, uint32_t frame),
                                  const void *context, size_t most);
void callsite_nodes_free(struct callsite_nodes *nodes);

#endif
