/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 95 % interval of an estimate from samples.
 *
 * An allocation of s bytes was sampled with p = 1 - exp(-s/T) and then represents 1/p calls: itself
 * and e = (1-p)/p missed ones. No sizes are needed: the sums in every figure are sufficient, so
 * that sums over callsites, threads or the whole heap get their intervals in the same way.
 *
 * The number of missed ones is the only uncertainty, and has its own distribution: if n samples of
 * one size were seen, it is negative binomial, with mean (n + k) e and variance (n + k) e (1 + e).
 * For small p that is the gamma distribution of Garwood's limits, for p near 1 the Poisson
 * distribution of a few misses, and 0 may be the likeliest number. Samples of several sizes are
 * treated as the negative binomial of the same mean and variance (as Fay and Feuer, 1997, do with
 * the gamma distribution of weighted counts). k is 0.4 below and 0.7 above, around the 1/2 of
 * Jeffreys' prior. If the lower end is "none was missed", the whole error is on the upper side.
 *
 * Counts have another unknown: sizes without any sample. The smaller a size is, the more calls of
 * it can stay unseen. If the samples differ in size, the upper limit assumes that the callsite also
 * made smaller calls, in the same distribution: equally many for each factor in size. It includes
 * them as long as fewer than 3 samples of them would be expected (with probability 5 % none is
 * seen), and not below 24 bytes, malloc's smallest block. A callsite whose samples have one size is
 * assumed to have only that size.
 *
 * These limits do not cover sizes unlike all samples: unseen.h does for sums over a heap.
 *
 * If the heap's calls were counted, no limit is above that total (profile_interval_cut): everything
 * that is live, or was at the peak, was allocated once.
 *
 * docs/sampling.md has the derivation, the measured coverage, and its limits.
 */
#ifndef HEAPPROFD_PROFILE_CONFIDENCE_INTERVAL_H
#define HEAPPROFD_PROFILE_CONFIDENCE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* Minimum bytes of a call: malloc's smallest block. */
#define PROFILE_CALL_BYTES_MIN 24.0

/* Sums over the same samples. */
struct profile_estimate {
    double bytes, count;                   /* of s/p and of 1/p */
    double bytes_variance, count_variance; /* of s^2 (1-p)/p^2 and of (1-p)/p^2 */
    double samples;                        /* 0: unknown */
    bool is_peak; /* of the moment of a heap's peak: see peak_bytes_bias in profile.h */
};

/* All samples that were calibrated together by a heap's exact totals
 * (recorder/ledger/calibration.h). */
struct profile_calibration {
    double bytes_variance, count_variance; /* of the estimate of all that was allocated */
    double missed_count;                   /* of it */
    /* At least so many had p < 1. 0: there are none. NAN: some were not calibrated. */
    double samples, samples_of_counts;
    double ratio; /* the most by which missed bytes were multiplied; 0: unknown */
    double peak_bytes_bias, peak_count_bias; /* as in struct profile_dump */
};

/* Of several heaps together: a part of both varies no more than this says. */
static inline void profile_calibration_add(struct profile_calibration *sum,
                                           const struct profile_calibration *more)
{
    sum->bytes_variance += more->bytes_variance;
    sum->count_variance += more->count_variance;
    sum->missed_count += more->missed_count;
    sum->samples += more->samples;
    sum->samples_of_counts += more->samples_of_counts;
    sum->ratio = more->ratio > sum->ratio ? more->ratio : sum->ratio;
    if (more->peak_bytes_bias > sum->peak_bytes_bias)
        sum->peak_bytes_bias = more->peak_bytes_bias;
    if (more->peak_count_bias > sum->peak_count_bias)
        sum->peak_count_bias = more->peak_count_bias;
}

static inline void profile_estimate_add(struct profile_estimate *sum,
                                        const struct profile_estimate *more)
{
    sum->bytes += more->bytes;
    sum->count += more->count;
    sum->bytes_variance += more->bytes_variance;
    sum->count_variance += more->count_variance;
    sum->samples += more->samples;
    sum->is_peak |= more->is_peak;
}

/* Return whether everything except the numbers of samples is equal. */
static inline bool profile_estimate_is_same(const struct profile_estimate *a,
                                            const struct profile_estimate *b)
{
    return a->bytes == b->bytes && a->count == b->count && a->bytes_variance == b->bytes_variance &&
           a->count_variance == b->count_variance;
}

struct profile_interval {
    double low, high;
};

/* The estimate is always inside the interval. Without variance the interval is a point. `low` is at
 * least the sampled bytes or calls. */
struct profile_interval profile_interval_of_bytes(const struct profile_estimate *estimate);
/* interval_bytes: T, of the sampling. If the number of samples is known, `low` is a whole number
 * and not below it. */
struct profile_interval profile_interval_of_count(const struct profile_estimate *estimate,
                                                  uint64_t interval_bytes);
/*
 * Return the interval of an estimate that is a part of what was calibrated together. The exact
 * total says how many were missed in all, so only their division between the part and the rest is
 * uncertain. Let v be the part's share of the variance of all, W, and m its share of the missed
 * ones. The variance that is left is W (v (1 - v) + (v - m)^2): docs/sampling.md. Two samples more,
 * in the rest, count as possible.
 */
struct profile_interval profile_interval_calibrated(struct profile_interval interval,
                                                    const struct profile_estimate *estimate,
                                                    bool counts,
                                                    const struct profile_calibration *all);
/* Return the interval of the bytes or the count of a part, calibrated. */
struct profile_interval profile_interval_of_part(const struct profile_estimate *estimate,
                                                 bool counts, uint64_t interval_bytes,
                                                 const struct profile_calibration *all);
/* Return the share of the variance that calibration leaves, 0 to 1. */
double profile_calibration_leaves(const struct profile_estimate *estimate, bool counts,
                                  const struct profile_calibration *all);
/* Return a lower bound of the bytes that were sampled. It is exact if the samples are certain, or
 * if those that are not certain are of one size. 0: unknown. */
double profile_interval_seen_bytes(const struct profile_estimate *estimate);
/* Cut both limits to `most`, a certain upper limit; 0: unknown. An estimate may exceed it by
 * chance: then it is the upper limit, so that it is inside of its interval. */
struct profile_interval profile_interval_cut(struct profile_interval interval, double most,
                                             double estimate);

#endif
