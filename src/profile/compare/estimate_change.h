/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change between two estimates: its value, its 95 % interval, and the probability that sampling
 * alone causes it.
 *
 * An estimate is a sum over samples. A change is `gained` less `lost`: the samples that only the
 * later profile has, less those that only the earlier one has. Samples that both have cancel out
 * and add no variance.
 *
 * Two runs share no sample: gained and lost are the two estimates, and their variances add up.
 *
 * Two dumps of one process share the blocks that were live at both. Allocations are sampled
 * independently with probability p and stand for s/p; a dump's figures are sums since the start.
 * Let a be the allocations between the dumps and f the frees between them, la the live blocks at
 * the first dump A and lb = la + a - f those at the second dump B (each is an estimate of bytes or
 * calls, a variance, or a number of samples: all of these are sums over samples). Then:
 *
 *   ever allocated   gained = a, lost = 0: the variance is that of B less that of A.
 *   live             with x for the blocks live at both, gained = lb - x and lost = la - x. These
 *                    are different samples, so the variance is la + lb - 2 x.
 *
 * The sums do not contain x, because they do not record whether a freed block was live at A or was
 * allocated after it. But at most f of la was freed, so x >= la - f, and x >= 0: the variance is at
 * most min(a + f, la + lb). This is exact if nothing was freed (a), nothing was allocated (f), or
 * everything live at A is gone (la + lb); otherwise it is an upper bound. It is computed for each
 * callsite and thread, where it is tightest.
 *
 * The interval is composed of the intervals of gained and lost (profile/confidence_interval.h) by
 * Zou and Donner's MOVER (2008): the distance of each limit is the root of the sum of squares of
 * the distances that add up in it.
 *
 * Samples that a heap's exact totals have calibrated vary less: profile_calibration_leaves().
 *
 * Neither part exceeds the bound by the exact totals; the interval is extended to the change if
 * that is outside of it. Sums over a heap also leave room for bytes without samples
 * (profile/unseen.h): a change of b bytes may consist of these with probability exp(-b/T). So does
 * a row of two processes that one side has not sampled at all, be the other side exact or not. The
 * change of a whole heap is that of the totals which reports show. It is exact if both are counted,
 * and neither count lacks calls.
 *
 * The probability: if nothing has changed, each sample that only one side has is equally likely on
 * either side. For samples of one weight w, the number of samples in a change is then the
 * difference of two equal Poisson numbers (Skellam, 1946) with the sum m = variance / w^2. For
 * small p this is the conditional test of two Poisson rates, slightly wider; for p near 1 it counts
 * the few blocks that one of the two missed, for which a normal distribution is wrong. Samples of
 * several weights are treated as of one. The tail is Lugannani and Rice's (1980) with Daniels'
 * second continuity correction (1987), on both sides.
 *
 * A change is beyond chance if Holm's procedure (1979) rejects it at 1 % over all rows of a table:
 * a table of chance alone has one or more marks in about 1 % of cases. (At 5 % it had marks in 4 to
 * 6 % of 400 pairs of runs, too many for a user who reads a hundred differences.) A row with too
 * few samples to be rejected in any case does not count as one of the rows (Tarone, 1990).
 *
 * Chance means that of sampling only. A program that behaves differently from run to run is outside
 * of this.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_ESTIMATE_CHANGE_H
#define HEAPPROFD_PROFILE_COMPARE_ESTIMATE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/confidence_interval.h"
#include "profile/profile.h"
#include "profile/unseen.h"

/* Sums over the samples that only the later, or only the earlier, profile has. */
struct change_parts {
    struct profile_estimate gained, lost;
};

/* Sampling interval of each side in bytes (0: unknown), and what each side's samples were
 * calibrated with. */
struct change_sampling {
    uint64_t gained_interval_bytes, lost_interval_bytes;
    struct profile_calibration gained_calibration, lost_calibration;
};

struct change {
    double value; /* gained less lost; 0: no difference */
    struct profile_interval interval;
    double probability;       /* of this change or a larger one by chance */
    double probability_least; /* the least possible: if all samples were on one side */
    bool uncertain;           /* the file contains no variance, so the interval is unknown */
    bool counted;             /* both sides are counted, not estimated: the change is exact */
    bool partial;             /* as `counted`, but the counts lack calls: its limits are unknown */
};

/* Bounds of each part by the exact totals, in bytes or calls. */
struct change_bounds {
    double gained_most, lost_most;            /* 0: unknown */
    struct unseen gained_unseen, lost_unseen; /* of sums over a heap */
    bool same;  /* both sides are of the same moment: nothing differs */
    bool apart; /* the sides are of two processes: what one has not sampled, the other may have */
    /* Whole heaps as reports show them (profile/compare/estimates.h), unless only parts are
     * compared. */
    bool has_totals;
    bool counted; /* these are exact totals */
    bool partial; /* as `counted`, but they lack calls */
    double before, after;
};

/* Compute the change of a callsite or another part of a heap. All bounds may be 0: unknown. */
struct change change_of_row(const struct change_parts *parts, bool counts,
                            const struct change_sampling *sampling,
                            const struct change_bounds *bounds);

/* Compute the change of sums over a heap. They leave room for bytes without samples. */
struct change change_of_heap(const struct change_parts *parts, bool counts,
                             const struct change_sampling *sampling,
                             const struct change_bounds *bounds);

/* Return the interval of gained less lost, from the interval of each. A value above its interval's
 * upper limit counts as that limit. */
struct profile_interval change_interval(double gained, struct profile_interval up, double lost,
                                        struct profile_interval down);

/* Return the parts gained and lost between two sums of samples of one process that have at least
 * `common` in common; `common` is limited to what both have. */
struct change_parts change_parts_of_common(const struct profile_estimate *before,
                                           const struct profile_estimate *after,
                                           const struct profile_estimate *common);

/* Set marks[i] if changes[i] is beyond chance. Return 0 or -ENOMEM. */
int change_mark(const struct change *changes, size_t count, bool *marks);

#endif
