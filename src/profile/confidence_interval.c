/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of estimates: the negative binomial distribution of the missed allocations. */
#include "profile/confidence_interval.h"

#include <math.h>
#include <stdbool.h>

#define PRIOR_SAMPLES_LOW 0.4
#define PRIOR_SAMPLES_HIGH 0.7

/* Standard normal quantile of 97.5 %. */
#define DEVIATIONS_TWO_SIDES 1.959964
/* The same of 95 %. */
#define DEVIATIONS_ONE_SIDE 1.644854
/* If "none was missed" has at least this probability, the interval includes it. */
#define NONE_MISSED_MIN 0.025
/* For whole numbers of misses. One side takes 96 %, because their mean is itself an estimate: 95 %
 * covered 92.4 % of the live counts of large blocks in tests/programs/ground_truth.c, 96 % covered
 * 94.1. */
#define WHOLE_ONE_SIDE 0.96
#define WHOLE_TWO_SIDES 0.975

/* With fewer misses than this, the distribution is summed one by one. */
#define MISSES_COUNTED 50.0
#define QUANTILE_STEPS_MAX 100000

/* Samples that a calibrated heap may have had beside the part of an estimate. */
#define SAMPLES_IN_REST 2.0

/* How much larger than the mean of the uncertain samples the missed ones may be, in units of that
 * mean, beyond their number. */
#define SIZE_SLACK 0.4

/* If no sample of some sizes was seen with a probability of 5 %, this number was expected. */
#define SAMPLES_UNSEEN_MAX 3.0
/* Samples whose sizes spread by this factor (natural logarithm; a factor of 2) have several
 * sizes. */
#define SPREAD_OF_SEVERAL_SIZES 0.7

/* Rounding errors of sums, most of which may have been subtracted again. */
#define SEEN_ROUNDING_BYTES 0.01
#define SEEN_ROUNDING 1e-10

/* A distribution of the missed allocations. */
struct moments {
    double mean, variance;
};

/* Missed calls, and the increase that one more sample would add to them. */
struct missed {
    double count, variance;
    double per_sample; /* e, of equal samples; else its mean weighted by e */
    double none;       /* probability that none is missing */
};

/* Return the quantile at `deviations` standard normal deviations from the middle of a gamma
 * distribution; by Wilson and Hilferty (1931). */
static double gamma_quantile(struct moments moments, double deviations)
{
    double scale = moments.variance / moments.mean, shape = moments.mean / scale;
    double root = 1 - 1 / (9 * shape) + deviations / (3 * sqrt(shape));
    return root > 0 ? scale * shape * root * root * root : 0;
}

/* Add `samples` samples of a weight, each of which represents `mean` missed ones with
 * `variance`. */
static struct moments moments_with(double mean, double variance, double samples, double more_mean,
                                   double more_variance)
{
    return (struct moments){mean + samples * more_mean, variance + samples * more_variance};
}

/* Return the smallest whole number that a negative binomial variable exceeds with 1 - probability
 * or less. */
static double whole_quantile(struct moments moments, double probability)
{
    double per_sample = (moments.variance - moments.mean) / moments.mean;
    double size = moments.mean / per_sample, ratio = per_sample / (1 + per_sample);
    double term = exp(-size * log1p(per_sample)), sum = term;
    int misses = 0;
    for (; sum < probability && misses < QUANTILE_STEPS_MAX; misses++) {
        term *= ratio * (size + misses) / (misses + 1);
        sum += term;
    }
    return misses;
}

/* Return false if nothing is known about the missed ones. */
static bool missed_of(const struct profile_estimate *estimate, struct missed *missed)
{
    double count = estimate->count - estimate->samples;
    /* If nearly all of many samples were freed, sums differ by a rounding error. */
    if (!(estimate->samples > 0) || !(estimate->count_variance > 0) ||
        !(count > 1e-9 * estimate->count))
        return false;
    /* Variance exceeds the mean by the sum of e^2. */
    double per_sample = fmax((estimate->count_variance - count) / count, 1e-9);
    *missed = (struct missed){count, count * (1 + per_sample), per_sample,
                              exp(-count / per_sample * log1p(per_sample))};
    return true;
}

static bool may_be_none(const struct missed *missed)
{
    return missed->none >= NONE_MISSED_MIN;
}

static struct profile_interval interval_around(double estimate, double low, double high)
{
    return (struct profile_interval){fmin(fmax(low, 0), estimate), fmax(high, estimate)};
}

/*
 * Return a lower bound of the sampled bytes: the estimate minus the most that the missed ones, sum
 * of s e, can be. By Cauchy and Schwarz that is the root of (sum of s^2 e (1+e)) (sum of e/(1+e)).
 * The second factor is at most n m/(n+m) for n samples and m missed, because e/(1+e) is concave;
 * and, with q for the sum of e^2, at most m - q/(1+sqrt(q)), because no e is above sqrt(q). The
 * first bound is exact for equal samples, the second if all but one are certain.
 */
static double seen_bytes_least(const struct profile_estimate *estimate, const struct missed *missed)
{
    double squares = missed->per_sample * missed->count;
    double shares = fmin(estimate->samples * missed->count / estimate->count,
                         missed->count - squares / (1 + sqrt(squares)));
    double least = estimate->bytes - sqrt(estimate->bytes_variance * fmax(shares, 0));
    /* Sizes are whole bytes; sums have rounding errors. */
    return ceil(least - SEEN_ROUNDING_BYTES - SEEN_ROUNDING * estimate->bytes);
}

/*
 * Return a lower bound of the sampled bytes of a calibrated estimate, whose missed ones were
 * multiplied by at most `ratio`, and whose variances were not. As above, but the sum of e/(1+e)
 * comes from the samples' number n and the variance v of the count, the sum of e (1+e): e/(1+e) is
 * a concave function of e (1+e), so n times its value at v/n is the most. Exact for equal samples.
 */
static double seen_bytes_calibrated(const struct profile_estimate *estimate, double ratio)
{
    double mean = estimate->count_variance / estimate->samples;
    double e = (sqrt(1 + 4 * mean) - 1) / 2;
    double missed = sqrt(estimate->bytes_variance * estimate->samples * e / (1 + e));
    return ceil(estimate->bytes - ratio * missed - SEEN_ROUNDING_BYTES -
                SEEN_ROUNDING * estimate->bytes);
}

/* As if the whole estimate were missed ones: p is small, or unknown. */
static struct moments all_moments(double estimate, double variance, double samples)
{
    double weight = variance / estimate;
    return moments_with(estimate, variance, samples, weight, weight * weight);
}

static struct profile_interval interval_of_sum(double estimate, double variance)
{
    if (!(estimate > 0) || !(variance > 0))
        return (struct profile_interval){estimate, estimate};
    return interval_around(
        estimate,
        gamma_quantile(all_moments(estimate, variance, PRIOR_SAMPLES_LOW), -DEVIATIONS_TWO_SIDES),
        gamma_quantile(all_moments(estimate, variance, PRIOR_SAMPLES_HIGH), DEVIATIONS_TWO_SIDES));
}

/*
 * Return the factor between a callsite's largest and smallest size, as a logarithm. If sizes are
 * equally many for each factor, from a to a e^r, samples are drawn in proportion to size, and their
 * weights have a mean square of (2/r sinh(r/2))^2 times their squared mean.
 */
static double size_spread(double squared_mean_ratio)
{
    double root = sqrt(fmax(squared_mean_ratio, 1));
    double half = fmin(sqrt(6 * (root - 1)), 12); /* above the solution, or far enough */
    for (int i = 0; i < 8 && half > 1e-6; i++) {
        double slope = cosh(half) - root;
        if (!(slope > 0))
            break;
        half = fmax(half - (sinh(half) - root * half) / slope, 0);
    }
    return 2 * half;
}

/* Estimate calls of sizes below all sampled ones; see confidence_interval.h. */
static double unseen_count(const struct profile_estimate *estimate, double interval_bytes)
{
    double count = estimate->count;
    double weights_squared = estimate->count_variance + count; /* sum of 1/p^2 */
    double spread = size_spread(estimate->samples * weights_squared / (count * count));
    if (spread < 1e-3)
        return 0;
    double per_factor = count / spread; /* calls for each factor of e in size */
    double smallest = interval_bytes * -expm1(-spread) * count / (spread * weights_squared);
    double factors_most = log(smallest / PROFILE_CALL_BYTES_MIN);
    if (!(factors_most > 0))
        return 0;
    double share = SAMPLES_UNSEEN_MAX * interval_bytes / (per_factor * smallest);
    double factors = share < 1 ? fmin(-log1p(-share), factors_most) : factors_most;
    double several = fmin(spread / SPREAD_OF_SEVERAL_SIZES, 1);
    return several * per_factor * factors * exp(-smallest / interval_bytes);
}

struct profile_interval profile_interval_of_count(const struct profile_estimate *estimate,
                                                  uint64_t interval_bytes)
{
    struct missed missed;
    double samples = estimate->samples, e, low = 0, high;
    if (!(samples > 0))
        return interval_of_sum(estimate->count, estimate->count_variance);
    if (!missed_of(estimate, &missed))
        return (struct profile_interval){estimate->count, estimate->count};
    e = missed.per_sample;
    if (!may_be_none(&missed)) {
        struct moments below =
            moments_with(missed.count, missed.variance, PRIOR_SAMPLES_LOW, e, e * (1 + e));
        low = gamma_quantile(below, -DEVIATIONS_TWO_SIDES);
    }
    struct moments above =
        moments_with(missed.count, missed.variance, PRIOR_SAMPLES_HIGH, e, e * (1 + e));
    if (missed.count < MISSES_COUNTED)
        high = whole_quantile(above, may_be_none(&missed) ? WHOLE_ONE_SIDE : WHOLE_TWO_SIDES);
    else
        high = gamma_quantile(above, DEVIATIONS_TWO_SIDES);
    high += unseen_count(estimate, (double)interval_bytes);
    return interval_around(estimate->count, floor(samples + low), samples + high);
}

struct profile_interval profile_interval_of_bytes(const struct profile_estimate *estimate)
{
    struct missed missed;
    struct profile_interval all = interval_of_sum(estimate->bytes, estimate->bytes_variance);
    if (!(all.high > all.low) || !missed_of(estimate, &missed))
        return all;
    double bytes = estimate->bytes, variance = estimate->bytes_variance, e = missed.per_sample;
    /* For the uncertain samples; exact if they have one size. */
    double size = sqrt(variance / (missed.count * (1 + e)));
    double missed_bytes = fmin(size * missed.count, bytes), seen_bytes = bytes - missed_bytes;
    bool none = may_be_none(&missed);
    struct moments above = moments_with(missed_bytes, variance, PRIOR_SAMPLES_HIGH, size * e,
                                        size * size * e * (1 + e));
    double high =
        seen_bytes + gamma_quantile(above, none ? DEVIATIONS_ONE_SIDE : DEVIATIONS_TWO_SIDES);
    double least = seen_bytes_least(estimate, &missed);
    if (!none)
        return interval_around(bytes, fmax(all.low, least), high);

    /* With a few blocks: the gamma distribution does not model whole blocks. */
    struct moments blocks =
        moments_with(missed.count, missed.variance, PRIOR_SAMPLES_HIGH, e, e * (1 + e));
    double whole = whole_quantile(blocks, WHOLE_ONE_SIDE);
    if (whole > 0)
        high = fmax(high, seen_bytes + size * (whole + SIZE_SLACK));
    else
        high = bytes;
    return interval_around(bytes, least, high);
}

double profile_calibration_leaves(const struct profile_estimate *estimate, bool counts,
                                  const struct profile_calibration *all)
{
    double part = counts ? estimate->count_variance : estimate->bytes_variance;
    double whole = counts ? all->count_variance : all->bytes_variance;
    double samples = counts ? all->samples_of_counts : all->samples;
    struct missed few;
    if (!(samples > 0) || !(whole > 0))
        return 1;
    /* The limits of a few misses are whole numbers of blocks, and the lower one is "none". */
    if (missed_of(estimate, &few) && may_be_none(&few))
        return 1;
    double share = part / (whole * (1 + SAMPLES_IN_REST / samples));
    double left = 1 - share;
    /* Bytes: what a sample adds to both differs by a factor of 4.6 at most, and both shares agree.
     */
    double missed = (estimate->count - estimate->samples) / all->missed_count;
    if (counts && missed > 0 && share > 0)
        left += (missed - share) * (missed - share) / share;
    return fmin(fmax(left, 0), 1);
}

struct profile_interval profile_interval_calibrated(struct profile_interval interval,
                                                    const struct profile_estimate *estimate,
                                                    bool counts,
                                                    const struct profile_calibration *all)
{
    double value = counts ? estimate->count : estimate->bytes;
    struct missed few;
    /* What profile_interval_of_bytes() says of the sampled bytes holds without calibration only. */
    if (!counts && all->ratio > 0 && missed_of(estimate, &few)) {
        double low = seen_bytes_calibrated(estimate, all->ratio);
        if (!may_be_none(&few))
            low = fmax(low, interval_of_sum(estimate->bytes, estimate->bytes_variance).low);
        interval.low = fmin(fmax(low, 0), value);
    }
    double width = sqrt(profile_calibration_leaves(estimate, counts, all));
    return (struct profile_interval){value - width * (value - interval.low),
                                     value + width * (interval.high - value)};
}

struct profile_interval profile_interval_of_part(const struct profile_estimate *estimate,
                                                 bool counts, uint64_t interval_bytes,
                                                 const struct profile_calibration *all)
{
    struct profile_interval interval = counts ? profile_interval_of_count(estimate, interval_bytes)
                                              : profile_interval_of_bytes(estimate);
    return profile_interval_calibrated(interval, estimate, counts, all);
}

double profile_interval_seen_bytes(const struct profile_estimate *estimate)
{
    struct missed missed;
    double least = estimate->bytes;
    if (!(estimate->samples > 0))
        return estimate->bytes_variance > 0 ? 0 : fmax(estimate->bytes, 0);
    if (missed_of(estimate, &missed))
        least = fmin(seen_bytes_least(estimate, &missed), least);
    return fmax(least, 0);
}

struct profile_interval profile_interval_cut(struct profile_interval interval, double most,
                                             double estimate)
{
    if (most > 0)
        interval = (struct profile_interval){fmin(interval.low, most),
                                             fmax(fmin(interval.high, most), estimate)};
    return interval;
}
