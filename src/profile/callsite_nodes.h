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
    uint32_t *places; /* by callsite: index + 1 of its node; before they are listed 1; 0: none */
    struct callsite_node {
        uint32_t callsite;
        uint32_t parent, first_child, next_sibling; /* index + 1; 0: none */
        bool outermost; /* no caller has the same number */
    } * nodes;
    size_t count;
};

/* 0 or -ENOMEM, as all of these. After a failure, too, callsite_nodes_free() is due. */
int callsite_nodes_begin(struct callsite_nodes *nodes, const struct profile *profile);
/* Mark a callsite; false: it is marked, and so are its callers. */
bool callsite_nodes_mark(struct callsite_nodes *nodes, uint32_t callsite);
/* List what is marked. */
int callsite_nodes_list(struct callsite_nodes *nodes);
/* Find which nodes are outermost, by the numbers, below `most`, that frames have. */
int callsite_nodes_find_outermost(struct callsite_nodes *nodes,
                                  uint64_t (*number)(const void *context, uint32_t frame),
                                  const void *context, size_t most);
void callsite_nodes_free(struct callsite_nodes *nodes);

#endif
