/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A difference between two estimates: what it is, its 95 % interval, and how likely it comes from
 * the sampling alone.
 *
 * An estimate is a sum over samples. A difference is `gained` less `lost`: the samples that only
 * the later profile has, less those that only the earlier one has. What both have cancels out, so
 * that the variance is that of the rest.
 *
 * Two runs share no sample: gained and lost are the two estimates, and their variances add up.
 *
 * Two dumps of one process share what lived through. Allocations are sampled independently, with
 * p, and stand for s/p; the figures of dumps are sums since the start. With a for what was
 * allocated between the dumps and f for what was freed between them, la for what was live at the
 * first and lb = la + a - f at the second (each an estimate of bytes or calls, a variance, or a
 * number of samples, for all of them are sums over samples):
 *
 *   ever allocated   gained = a, lost = 0: the variance of B less that of A.
 *   live             with x for what was live at both, gained = lb - x and lost = la - x; these
 *                    are different samples, so the variance is la + lb - 2 x.
 *
 * x cannot be told from sums: whether a block that was freed was there at A or came and went
 * between the dumps is not in them. But at most f of la was freed, so x is at least la - f, and at
 * least 0: the variance is at most min(a + f, la + lb). It is exact where nothing was freed (a),
 * nothing was allocated (f), or all that was live at A is gone (la + lb); else it is an upper
 * bound. It is taken callsite by callsite, thread by thread, where it is the tightest.
 *
 * The interval is made from those of gained and lost (profile/interval.h) by Zou and Donner's
 * MOVER (2008): the distance of each limit is the root of the sum of squares of the distances that
 * add up in it.
 *
 * Neither is above what the exact totals leave for it. Of a sum over a heap both leave room for
 * what no sample shows (profile/unseen.h), and a change of b bytes may be that with probability
 * exp(-b/T).
 *
 * The probability. If nothing has changed, each sample that is not in both is as likely in one as
 * in the other. Samples of one weight w then make a difference whose number of samples is the
 * difference of two equal Poisson numbers (Skellam, 1946) of together m = variance / w^2; for small
 * p that is the conditional test of two Poisson rates, a little wider; for p near 1 it is
 * the few blocks that one of the two missed, which a normal distribution knows nothing of. Samples
 * of several weights are taken as of one. The tail is Lugannani and Rice's (1980) with Daniels'
 * second continuity correction (1987), on both sides.
 *
 * Beyond chance is what Holm's procedure (1979) rejects at 1 % of all rows of a table: a table
 * of nothing but chance has one or more marks in about 1 % of cases (in 4 to 6 % at 5 %, of 400
 * pairs of runs, which was too many for whoever looks at a hundred differences). A row with too few
 * samples to be rejected whatever they were is not counted among them (Tarone, 1990).
 *
 * What is told from chance is the sampling's. That a program does not do the same in every run is
 * none of it.
 */
#ifndef HEAPPROFD_COMPARE_CHANGE_H
#define HEAPPROFD_COMPARE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/interval.h"
#include "profile/profile.h"
#include "profile/unseen.h"

/* Samples that one of both has. */
struct change_parts {
    struct profile_estimate gained, lost;
};

/* Mean bytes between samples, of each side; 0: not told. */
struct change_sampling {
    uint64_t gained_interval_bytes, lost_interval_bytes;
};

struct change {
    double value; /* gained less lost; 0: no difference */
    struct profile_interval interval;
    double probability;       /* of as much or more by chance */
    double probability_least; /* if all samples were on one side */
    bool uncertain;           /* how exact it is, is not known: no variance stands in the file */
};

/* What the exact totals say of each part, in bytes or calls. */
struct change_bounds {
    double gained_most, lost_most;            /* 0: unknown */
    struct unseen gained_unseen, lost_unseen; /* of sums over a heap */
    bool same;                                /* both sides are of one moment: nothing differs */
};

/* bounds: NULL: none are known. of_heap: the parts are sums over a heap, with what no sample shows.
 */
struct change change_of(const struct change_parts *parts, bool counts,
                        const struct change_sampling *sampling, const struct change_bounds *bounds,
                        bool of_heap);

/* The interval of gained less lost, each with its own. One that is beyond what is certain of it
 * counts as just that. */
struct profile_interval change_interval(double gained, struct profile_interval up, double lost,
                                        struct profile_interval down);

/* Of one process: what is gained and lost between two sets of samples that have at least `common`
 * in common, which is cut to what both have. */
struct change_parts change_parts_of_common(const struct profile_estimate *before,
                                           const struct profile_estimate *after,
                                           const struct profile_estimate *common);

/* Marks what is beyond chance. 0 or -ENOMEM. */
int change_mark(const struct change *changes, size_t count, bool *marks);

#endif
