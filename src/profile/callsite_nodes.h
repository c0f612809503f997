/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callsites that the stacks of some samples lead through, each once, a parent before its
 * children: what all of them hold is added up from below in one pass. Walking up from each sample
 * would cost as much as all stacks are long, and a chain of n callsites has n * n / 2 frames.
 */
#ifndef HEAPPROFD_PROFILE_CALLSITE_NODES_H
#define HEAPPROFD_PROFILE_CALLSITE_NODES_H

#include "profile/profile.h"

struct callsite_nodes {
    const struct profile *profile;
    /* By callsite: index + 1 of its node; until they are listed, the callsite marked before it and
     * 2, or 1; 0: none. */
    uint32_t *places;
    struct listed_callsite {
        uint32_t callsite;
        uint32_t parent, first_child, next_sibling; /* index + 1; 0: none */
        bool outermost; /* no caller has the same number */
    } * nodes;
    size_t count, capacity;
    uint32_t last_marked; /* and 2; 1: none */
    uint32_t *above;      /* by number: how many are on the path */
    size_t above_count;
};

/* 0 or -ENOMEM, as all of these. After a failure, too, callsite_nodes_free() is due. */
int callsite_nodes_begin(struct callsite_nodes *nodes, const struct profile *profile);
/* Mark a callsite; false: it is marked, and so are its callers. */
bool callsite_nodes_mark(struct callsite_nodes *nodes, uint32_t callsite);
/* Mark the callsites that a dump's stacks lead through. */
void callsite_nodes_mark_dump(struct callsite_nodes *nodes, const struct profile_dump *dump);
/* List what is marked. */
int callsite_nodes_list(struct callsite_nodes *nodes);
/* Unmark all, which costs as much as they were: then others can be marked. */
void callsite_nodes_clear(struct callsite_nodes *nodes);
/* Find which nodes are outermost, by the numbers, below `most`, that frames have. */
int callsite_nodes_find_outermost(struct callsite_nodes *nodes,
                                  uint64_t (*number)(const void *context, uint32_t frame),
                                  const void *context, size_t most);
void callsite_nodes_free(struct callsite_nodes *nodes);

#endif
