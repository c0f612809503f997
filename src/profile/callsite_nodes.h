/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callsites on the stacks of some samples, each once, parents before children: a tree for
 * tree_sums.h. Walking up from each sample would cost the length of all stacks: a chain of n
 * callsites with a sample each has n * n / 2 frames.
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
        uint32_t parent; /* index; PROFILE_NONE: outermost */
    } * nodes;
    size_t count, capacity;
    uint32_t last_marked; /* head of that list: callsite + 2; 1: empty */
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
void callsite_nodes_free(struct callsite_nodes *nodes);

#endif
