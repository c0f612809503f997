/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of unsampled memory. Calls of b bytes in total have no sample with probability exp(-b/T):
 * up to 3 T bytes may be missing (95 %, the rule of three), in calls of any size. The interval of
 * an estimate (confidence_interval.h) covers only sizes like the sampled ones. So a sum over a
 * whole heap, whose calls have all sizes, gets an upper limit with room for this, too.
 *
 * The exact totals limit it: only the allocated minus the sampled memory can be missing. If every
 * call was sampled, nothing is.
 */
#ifndef HEAPPROFD_PROFILE_UNSEEN_H
#define HEAPPROFD_PROFILE_UNSEEN_H

#include "profile/confidence_interval.h"
#include "profile/profile.h"

/* Upper bounds of the unsampled bytes or calls. */
struct unseen {
    double chance; /* with 95 % confidence */
    double left;   /* certain: from the exact total; INFINITY: unknown */
};

/* The counted total of a dump, and the sampled part of it. */
struct unseen_counted {
    double bytes, calls; /* INFINITY: unknown */
    struct profile_estimate sampled;
};
struct unseen_counted unseen_counted_of(const struct profile_heap *heap,
                                        const struct profile_dump *dump);
/* Return whether the program drew all samples itself: then only it knows what is unseen. */
bool unseen_is_as_reported(const struct profile_heap *heap);

/* Calls are assumed to have 24 bytes, malloc's smallest block, or the mean size of the unsampled
 * ones if that is smaller. */
struct unseen unseen_of(const struct profile_heap *heap, const struct profile_dump *dump,
                        bool counts);
/* For the memory allocated between two dumps of a heap. */
struct unseen unseen_between(const struct profile_heap *heap, const struct profile_dump *earlier,
                             const struct profile_dump *later, bool counts);
/* For two heaps together. */
struct unseen unseen_add(struct unseen one, struct unseen other);
double unseen_most(struct unseen unseen);

/* Raise the upper limit of a heap's figure to include unsampled memory. */
struct profile_interval unseen_raise(struct profile_interval interval, double estimate,
                                     struct unseen unseen);

#endif
