/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change between the means of two groups of runs, as of two releases, each of which ran several
 * times. What differs from run to run is in it: Welch's t test (1947), whose interval is that of
 * the difference of two means with unequal variances.
 *
 * The variance of a mean is the larger one of two: that of the runs' figures around it, which
 * contains the sampling error, and that which sampling alone would have. So a few runs that are
 * alike by chance do not look surer than their samples are.
 *
 * Two groups without any spread differ exactly, or not at all: the probability is then 0 or 1. A
 * group of one run has no spread; the change and its probability are unknown then.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_RUNS_H
#define HEAPPROFD_PROFILE_COMPARE_RUNS_H

#include <stddef.h>

#include "profile/compare/estimate_change.h"

struct runs_side {
    const double *values;    /* by run */
    const double *variances; /* of sampling, by run */
    size_t count;
};

struct runs_mean {
    double mean, spread; /* standard deviation between runs; NAN: of one run */
};

struct runs_mean runs_mean_of(const struct runs_side *side);

/* Compare the sides. change.uncertain: a side has one run, and only the value is known. */
struct change runs_compare(const struct runs_side *before, const struct runs_side *after);

/* Return the probability that Student's t with so many degrees of freedom is as far from 0. */
double runs_student_probability(double t, double degrees);

#endif
