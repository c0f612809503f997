/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rows of stacks that hold most of a sum. A row has all stacks that a table shows alike:
 * the function that they are charged to, and its callers, each with its line.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_CULPRITS_H
#define HEAPPROFD_PROFILE_COMPARE_CULPRITS_H

#include "profile/folding.h"
#include "trace/intern.h"

struct culprits {
    const struct profile *profile;
    const struct folding *folding; /* NULL: nothing is folded */
    struct intern_table ids;
    struct culprit {
        uint32_t callsite; /* of the heaviest stack */
        double bytes, heaviest_bytes;
    } * rows; /* by id */
    size_t capacity;
    bool failed; /* no memory */
};

void culprits_add(struct culprits *culprits, uint32_t callsite, double bytes);

/* Get the heaviest rows, the heaviest first. The callsite PROFILE_NONE ends a list that has fewer.
 * Only rows above 0 are in it. Return 0 or -ENOMEM. */
int culprits_heaviest(const struct culprits *culprits, uint32_t *callsites, double *bytes,
                      size_t count);

void culprits_free(struct culprits *culprits);

#endif
