/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the samples of a heap agree with its exact totals.
 *
 * A heap carries two answers to "how much was allocated": the exact totals, which every call is
 * added to, and the estimate from samples. Both are of the same moment, so they may differ by
 * chance alone. A larger difference means that samples are missing (or that there are too many),
 * and then no figure with a call stack can be trusted as it stands.
 *
 * An allocation of s bytes is sampled with p = 1 - exp(-s/T), and with p = 1 from T ln 100 on
 * (wire/sampling.h). It then adds s/p to the estimate, whose error is a sum of independent terms
 * of mean 0. Two bounds of Bernstein's kind hold for any number of samples; a normal approximation
 * would hold for many samples only. L = ln(events / probability), and P(each) = e^-L:
 *
 * 1. The error. P(error >= bL/3 + sqrt((bL/3)^2 + 2 L V)) <= e^-L, where V is its variance and no
 *    term exceeds b (Boucheron, Lugosi and Massart, Concentration Inequalities, 2013, 2.10; for
 *    terms that depend on earlier ones, Freedman 1975). Upwards a term is at most s/p - s <= T,
 *    downwards at most s < T ln 100. Of counts: 1/p - 1 <= T, and 1.
 * 2. The variance V, of which the samples give an estimate W = sum of s^2 (1-p)/p^2, each term at
 *    most T^2. P(V - W >= sqrt(2 L T^2 V)) <= e^-L (Maurer 2003, for terms that are not negative),
 *    hence sqrt(V) <= T sqrt(L/2) + sqrt(W + L T^2 / 2). Without samples, V <= T times the exact
 *    total, for s^2 (1-p)/p <= s T. Counts have the same bounds.
 *
 * Six events (two sides and a variance, of bytes and of counts) share the probability.
 */
#ifndef HEAPPROFD_PROFILE_AGREEMENT_H
#define HEAPPROFD_PROFILE_AGREEMENT_H

#include <stdbool.h>

#include "profile/profile.h"

/* Probability that a profile without a fault is reported as disagreeing. */
#define PROFILE_AGREEMENT_PROBABILITY 1e-9

struct profile_gap {
    double missing; /* exact total less estimate; negative if the estimate is too high */
    double chance;  /* the largest difference of this sign that chance explains */
};

struct profile_agreement {
    bool known; /* false: there are no exact totals to compare with */
    struct profile_gap bytes, calls;
};

struct profile_agreement profile_agreement_of(const struct profile_heap *heap,
                                              const struct profile_dump *dump);

/* Return whether the gap is larger than chance explains. */
bool profile_gap_is_real(const struct profile_gap *gap);

/* Return whether bytes or calls disagree; false if nothing is known. */
bool profile_disagrees(const struct profile_heap *heap, const struct profile_dump *dump);

#endif
