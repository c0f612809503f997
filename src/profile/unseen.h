/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no sample shows. Calls of b bytes in all have no sample with probability exp(-b/T): up to
 * 3 T bytes may be missing (95 %, the rule of three), in calls of any size. The interval of an
 * estimate (confidence_interval.h) covers only sizes like those that were sampled. So a sum over a
 * whole heap, whose calls are of all sizes, has an upper limit that leaves room for this, too.
 *
 * The exact totals bound it: what was allocated less what was sampled is all that can be missing.
 * Where every call was sampled, nothing is.
 */
#ifndef HEAPPROFD_PROFILE_UNSEEN_H
#define HEAPPROFD_PROFILE_UNSEEN_H

#include "profile/confidence_interval.h"
#include "profile/profile.h"

/* Bytes, or calls, that no sample shows, at the most. */
struct unseen {
    double chance; /* with 95 % confidence */
    double left;   /* for certain: of the exact total; INFINITY: unknown */
};

/* Calls are counted as of 24 bytes, malloc's smallest block, or of the mean size of those that were
 * not sampled where that is smaller. */
struct unseen unseen_of(const struct profile_heap *heap, const struct profile_dump *dump,
                        bool counts);
/* What was allocated between two dumps of a heap. */
struct unseen unseen_between(const struct profile_heap *heap, const struct profile_dump *earlier,
                             const struct profile_dump *later, bool counts);
/* Of two heaps together. */
struct unseen unseen_add(struct unseen one, struct unseen other);
double unseen_most(struct unseen unseen);

/* Raise the upper limit of a heap's figure to what no sample shows. */
struct profile_interval unseen_raise(struct profile_interval interval, double estimate,
                                     struct unseen unseen);

#endif
