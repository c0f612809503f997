/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a change's value, its interval by MOVER, its probability by a saddle point approximation
 * of the difference of two Poisson numbers, and Holm's marks over a table. */
#include "profile/compare/estimate_change.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "util/ranked.h"

#define LEVEL 0.01

/* Relative rounding errors. Smaller differences of estimates are rounding: sums of a million terms
 * have 1e-13 and less. Variances have a looser bound, because only their roots matter. */
#define ROUNDING 1e-12
#define VARIANCE_ROUNDING 1e-9
/* Probability that unseen.chance bytes have no sample, by definition. */
#define UNSEEN_PROBABILITY 0.05
/* Least expected number of samples that only one side has. Less is rounding: even the largest
 * allocation that can be missed is missed with a probability of 1 %. */
#define SAMPLES_APART_MIN 1e-6

/* Return the difference of two estimates that counts as equal. Integers are exact. */
static double rounding_of(double one, double other)
{
    double sum = fabs(one) + fabs(other);
    bool whole = sum < 0x1p53 && trunc(one) == one && trunc(other) == other;
    return whole ? 0 : ROUNDING * sum;
}

static double rest_of(double whole, double common)
{
    double rest = whole - common;
    return rest > rounding_of(whole, common) ? rest : 0;
}

static double variance_rest_of(double whole, double common)
{
    double rest = whole - common;
    return rest > VARIANCE_ROUNDING * fabs(whole) ? rest : 0;
}

static double common_of(double before, double after, double at_least)
{
    return fmin(fmax(at_least, 0), fmin(before, after));
}

static struct profile_estimate estimate_rest(const struct profile_estimate *whole,
                                             const struct profile_estimate *common)
{
    return (struct profile_estimate){
        .bytes = rest_of(whole->bytes, common->bytes),
        .count = rest_of(whole->count, common->count),
        .bytes_variance = variance_rest_of(whole->bytes_variance, common->bytes_variance),
        .count_variance = variance_rest_of(whole->count_variance, common->count_variance),
        .samples = rest_of(whole->samples, common->samples),
    };
}

struct change_parts change_parts_of_common(const struct profile_estimate *before,
                                           const struct profile_estimate *after,
                                           const struct profile_estimate *common)
{
    const struct profile_estimate both = {
        .bytes = common_of(before->bytes, after->bytes, common->bytes),
        .count = common_of(before->count, after->count, common->count),
        .bytes_variance =
            common_of(before->bytes_variance, after->bytes_variance, common->bytes_variance),
        .count_variance =
            common_of(before->count_variance, after->count_variance, common->count_variance),
        .samples = common_of(before->samples, after->samples, common->samples),
    };
    return (struct change_parts){.gained = estimate_rest(after, &both),
                                 .lost = estimate_rest(before, &both)};
}

/* --- how likely --- */

static double normal_tail(double deviations)
{
    return erfc(deviations * M_SQRT1_2) / 2;
}

/* Return the probability that two Poisson numbers of mean `mean` / 2 each differ by `difference` or
 * more, in either direction. */
static double difference_tail(double difference, double mean)
{
    double at = difference - 0.5;
    if (!(at > 0))
        return 1;
    double slope = at / mean, point = asinh(slope), root = sqrt(1 + slope * slope);
    double distance = 2 * mean * (slope * point - slope * slope / (1 + root));
    double r = sqrt(fmax(distance, 0)), q = 2 * sinh(point / 2) * sqrt(mean * root);
    double tail = normal_tail(r);
    if (r > 1e-3)
        tail += exp(-distance / 2) / sqrt(2 * M_PI) * (1 / q - 1 / r);
    return fmin(fmax(2 * tail, 0), 1);
}

/* Return the weight of a sample that only one side can have, or 0. */
static double weight_of(const struct profile_estimate *all, bool counts)
{
    double variance = counts ? all->count_variance : all->bytes_variance;
    double estimate = counts ? all->count : all->bytes;
    double missed = all->count - all->samples;
    if (!(variance > 0) || !(estimate > 0))
        return 0;
    if (!(all->samples > 0) || !(missed > VARIANCE_ROUNDING * all->count) ||
        !(all->count_variance > 0))
        return variance / estimate;
    double calls = all->count_variance / missed;
    return counts ? calls : sqrt(all->bytes_variance / all->count_variance) * calls;
}

static double variance_left(const struct profile_estimate *part, bool counts,
                            const struct profile_calibration *calibration)
{
    return (counts ? part->count_variance : part->bytes_variance) *
           profile_calibration_leaves(part, counts, calibration);
}

static void set_probabilities(struct change *change, const struct change_parts *parts, bool counts,
                              const struct change_sampling *sampling)
{
    struct profile_estimate all = parts->gained;
    profile_estimate_add(&all, &parts->lost);
    double weight = weight_of(&all, counts);
    double variance = variance_left(&parts->gained, counts, &sampling->gained_calibration) +
                      variance_left(&parts->lost, counts, &sampling->lost_calibration);
    double apart = weight > 0 ? variance / (weight * weight) : 0;
    if (apart < SAMPLES_APART_MIN) {
        change->probability = change->value != 0 ? 0 : 1;
        change->probability_least = change->probability;
        return;
    }
    change->probability = difference_tail(fabs(change->value) / weight, apart);
    change->probability_least = difference_tail((counts ? all.count : all.bytes) / weight, apart);
}

/* --- the interval --- */

static bool lacks_variance(const struct profile_estimate *estimate, uint64_t interval_bytes)
{
    return interval_bytes != 1 && estimate->count + estimate->bytes > 0 &&
           (!(estimate->samples > 0) || interval_bytes == 0) && !(estimate->bytes_variance > 0);
}

struct profile_interval change_interval(double gained, struct profile_interval up, double lost,
                                        struct profile_interval down)
{
    gained = fmin(gained, up.high);
    lost = fmin(lost, down.high);
    return (struct profile_interval){
        gained - lost - hypot(gained - up.low, down.high - lost),
        gained - lost + hypot(up.high - gained, lost - down.low),
    };
}

/* Return the probability that `value` or more was live on the other side without any sample. */
static double unseen_probability(double value, const struct unseen *unseen)
{
    if (!(unseen->chance > 0) || value > unseen->left)
        return 0;
    return pow(UNSEEN_PROBABILITY, value / unseen->chance);
}

/* The two sides of a change, in bytes or calls, with the limits of each. */
struct sides {
    double gained, lost;
    struct profile_interval up, down;
};

static double difference_of(double after, double before)
{
    double value = after - before;
    return fabs(value) <= rounding_of(after, before) ? 0 : value;
}

static struct sides sides_of(const struct change_parts *parts, bool counts,
                             const struct change_sampling *sampling)
{
    return (struct sides){
        .gained = counts ? parts->gained.count : parts->gained.bytes,
        .lost = counts ? parts->lost.count : parts->lost.bytes,
        .up = profile_interval_of_part(&parts->gained, counts, sampling->gained_interval_bytes,
                                       &sampling->gained_calibration),
        .down = profile_interval_of_part(&parts->lost, counts, sampling->lost_interval_bytes,
                                         &sampling->lost_calibration),
    };
}

/* Compute what the samples say, without the limits. */
static struct change sampled_change(const struct sides *sides, const struct change_parts *parts,
                                    bool counts, const struct change_sampling *sampling)
{
    struct change change = {.value = difference_of(sides->gained, sides->lost)};
    set_probabilities(&change, parts, counts, sampling);
    change.uncertain = lacks_variance(&parts->gained, sampling->gained_interval_bytes) ||
                       lacks_variance(&parts->lost, sampling->lost_interval_bytes);
    return change;
}

/* Set the limits of the change, which include its value. */
static void set_interval(struct change *change, const struct sides *sides,
                         const struct change_bounds *bounds)
{
    change->interval =
        change_interval(sides->gained, profile_interval_cut(sides->up, bounds->gained_most, 0),
                        sides->lost, profile_interval_cut(sides->down, bounds->lost_most, 0));
    change->interval.low = fmin(change->interval.low, change->value);
    change->interval.high = fmax(change->interval.high, change->value);
}

/* Leave room in a row for what the side may have that has no sample in it. */
static void leave_room_in_row(struct change *change, struct sides *sides,
                              const struct change_bounds *bounds)
{
    bool is_gain = sides->gained > 0 && sides->lost == 0;
    if (!is_gain && (sides->gained != 0 || !(sides->lost > 0)))
        return;
    const struct unseen *unseen = is_gain ? &bounds->lost_unseen : &bounds->gained_unseen;
    struct profile_interval *other = is_gain ? &sides->down : &sides->up;
    double probability = unseen_probability(fabs(change->value), unseen);
    *other = unseen_raise(*other, 0, *unseen);
    change->probability = fmax(change->probability, probability);
    change->probability_least = fmax(change->probability_least, probability);
}

struct change change_of_row(const struct change_parts *parts, bool counts,
                            const struct change_sampling *sampling,
                            const struct change_bounds *bounds)
{
    struct sides sides = sides_of(parts, counts, sampling);
    struct change change = sampled_change(&sides, parts, counts, sampling);
    if (bounds->apart)
        leave_room_in_row(&change, &sides, bounds);
    set_interval(&change, &sides, bounds);
    return change;
}

static void leave_room_in_heap(struct change *change, struct sides *sides,
                               const struct change_bounds *bounds)
{
    sides->up = unseen_raise(sides->up, sides->gained, bounds->gained_unseen);
    sides->down = unseen_raise(sides->down, sides->lost, bounds->lost_unseen);
    const struct unseen *other = change->value > 0 ? &bounds->lost_unseen : &bounds->gained_unseen;
    if (change->value != 0)
        change->probability =
            fmax(change->probability, unseen_probability(fabs(change->value), other));
}

static struct change change_of_counted(const struct change_bounds *bounds)
{
    double value = bounds->after - bounds->before, probability = value != 0 ? 0 : 1;
    return (struct change){.value = value,
                           .interval = {value, value},
                           .probability = probability,
                           .probability_least = probability,
                           .counted = true,
                           .partial = bounds->partial};
}

struct change change_of_heap(const struct change_parts *parts, bool counts,
                             const struct change_sampling *sampling,
                             const struct change_bounds *bounds)
{
    if (bounds->counted)
        return change_of_counted(bounds);
    struct sides sides = sides_of(parts, counts, sampling);
    struct change change = sampled_change(&sides, parts, counts, sampling);
    leave_room_in_heap(&change, &sides, bounds);
    if (bounds->has_totals)
        change.value = difference_of(bounds->after, bounds->before);
    set_interval(&change, &sides, bounds);
    if (bounds->same && change.value == 0)
        change.interval = (struct profile_interval){0, 0};
    return change;
}

/* --- marks --- */

int change_mark(const struct change *changes, size_t count, bool *marks)
{
    struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
    size_t tested = 0;
    if (ranked == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        marks[i] = false;
        if (!changes[i].uncertain && changes[i].probability_least <= LEVEL)
            ranked[tested++] = (struct ranked){i, -changes[i].probability};
    }
    ranked_sort(ranked, tested); /* the least probable first */
    for (size_t i = 0; i < tested; i++) {
        if (-ranked[i].rank > LEVEL / (double)(tested - i))
            break;
        marks[ranked[i].index] = changes[ranked[i].index].value != 0;
    }
    free(ranked);
    return 0;
}
