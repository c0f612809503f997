/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 95 % interval of an estimate from samples.
 *
 * An allocation of s bytes was sampled with p = 1 - exp(-s/T) and then stands for 1/p calls: itself
 * and e = (1-p)/p that were missed. Sizes are not asked for: the sums that every figure carries
 * hold enough, so that intervals of sums over callsites, threads or the whole heap come the same
 * way.
 *
 * What was missed is the only uncertainty, and has a distribution of its own: if n samples of one
 * size were seen, the number of missed ones is negative binomial, with mean (n + k) e and
 * variance (n + k) e (1 + e). For small p that is the gamma distribution of Garwood's limits, for p
 * near 1 the Poisson distribution of a few misses, and none may be the likeliest number. Samples of
 * several sizes are taken as the negative binomial of the same mean and variance (as Fay and
 * Feuer, 1997, do with the gamma distribution of weighted counts). k is 0.4 below and 0.7 above,
 * around the 1/2 of Jeffreys' prior. Where the lower end is "none was missed", the whole error is
 * on the upper side.
 *
 * Counts have an unknown beyond: sizes that no sample is of, which weigh the more the smaller they
 * are. If the samples differ in size, the upper limit supposes that the callsite's sizes go on
 * downwards as they are seen above, equally many for each factor in size, as far as fewer than 3
 * samples of them would be expected (none is seen with probability 5 %), and not below 24 bytes,
 * malloc's smallest block. A callsite whose samples are of one size is believed to have one.
 *
 * Sizes that no sample is like are not in these limits: unseen.h has sums over a heap.
 *
 * If the heap's calls were counted, no limit is above that total (profile_interval_cut): everything
 * that is live, or was at the peak, was allocated once.
 *
 * docs/sampling.md has the derivation, what the intervals hold as measured, and where they cannot.
 */
#ifndef HEAPPROFD_PROFILE_CONFIDENCE_INTERVAL_H
#define HEAPPROFD_PROFILE_CONFIDENCE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* The least bytes of a call: malloc's smallest block. */
#define PROFILE_CALL_BYTES_MIN 24.0

/* Sums over the same samples. */
struct profile_estimate {
    double bytes, count;                   /* of s/p and of 1/p */
    double bytes_variance, count_variance; /* of s^2 (1-p)/p^2 and of (1-p)/p^2 */
    double samples;                        /* 0: unknown */
};

static inline void profile_estimate_add(struct profile_estimate *sum,
                                        const struct profile_estimate *more)
{
    sum->bytes += more->bytes;
    sum->count += more->count;
    sum->bytes_variance += more->bytes_variance;
    sum->count_variance += more->count_variance;
    sum->samples += more->samples;
}

/* Return whether all but the numbers of samples are equal. */
static inline bool profile_estimate_is_same(const struct profile_estimate *a,
                                            const struct profile_estimate *b)
{
    return a->bytes == b->bytes && a->count == b->count && a->bytes_variance == b->bytes_variance &&
           a->count_variance == b->count_variance;
}

struct profile_interval {
    double low, high;
};

/* The estimate is always inside the interval. Without variance the interval is a point. `low` is
 * not below the bytes or calls that were sampled. */
struct profile_interval profile_interval_of_bytes(const struct profile_estimate *estimate);
/* interval_bytes: T, of the sampling. Where the number of samples is known, `low` is a whole
 * number and not below it. */
struct profile_interval profile_interval_of_count(const struct profile_estimate *estimate,
                                                  uint64_t interval_bytes);
/* Return a lower bound of the bytes that were sampled. It is exact if the samples are certain, or
 * if those that are not certain are of one size. 0: unknown. */
double profile_interval_seen_bytes(const struct profile_estimate *estimate);
/* Cut both limits to `most`, a certain upper limit; 0: unknown. The estimate may exceed it. */
struct profile_interval profile_interval_cut(struct profile_interval interval, double most);

#endif
