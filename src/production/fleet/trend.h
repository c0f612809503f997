/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether values rise over time on many hosts, and the chance that it is chance.
 *
 * The test of Mann (1945) and Kendall: of all pairs of moments of a host, S is the number that rose
 * less the number that fell. It needs no distribution, which heaps do not have (a deployment is a
 * step), and no value where a host was away. Without a trend every order of the values is equally
 * likely: then S has mean 0 and variance n(n-1)(2n+5)/18, less t(t-1)(2t+5)/18 for each group of t
 * equal values.
 *
 * Two p-values, both one-sided. Hosts are independent, so their S and variances add up: the
 * regional Kendall test (Helsel and Frans, 2006), which finds a slow rise on all hosts. And the
 * smallest p of a single host, times the number of hosts, which finds a leak on one of fifty.
 * The result is twice the smaller one, times the number of callsites that were examined
 * (Bonferroni): the chance that any of them looks like this without a trend.
 *
 * It does not know that values of neighbouring moments are alike: a level that wanders slowly looks
 * like a trend more often than p says. Days are better than hours.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_TREND_H
#define HEAPPROFD_PRODUCTION_FLEET_TREND_H

#include <stddef.h>

/* Fewer moments say nothing: four in a row rise by chance once in 24. */
#define TREND_MOMENTS_MIN 4u
#define TREND_MOMENTS_MAX 64u

struct trend {
    double s, variance;
    double p;     /* one-sided, of a rise; 1 with too few moments */
    double slope; /* median of all pairs' slopes (Theil and Sen), in values per moment */
    size_t moments;
};

/* Test values[0 .. count); NAN: unknown. count is at most TREND_MOMENTS_MAX. */
struct trend trend_of(const double *values, size_t count);

/* A callsite's hosts. Begin with zeros and p_best 1. */
struct trend_of_hosts {
    double s, variance, p_best;
    size_t hosts, rising, falling;
};
void trend_add_host(struct trend_of_hosts *sum, const struct trend *host);

/* Return the p-value of all hosts, for one of `callsites` callsites. */
double trend_p(const struct trend_of_hosts *sum, size_t callsites);

#endif
