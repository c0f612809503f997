/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a leak from a cache by one dump: what was freed, how long it lived, and when that which is
 * live was allocated.
 *
 * The time since the start is divided into slices (trace/live_times.h). Let o be the number of live
 * samples of slices in the older half, without the first slice, in which a program begins; and y of
 * as many slices of the younger half, without the last one, in which requests are still served.
 *
 *   memory that grows    is of all times: o and y are alike
 *   a cache that turns over, or garbage that is collected in time, has no old blocks: o is small
 *   what a program sets up and keeps has no young ones: y is small
 *
 * A row grows if chance explains neither a small o nor a small y. Of o + y samples, o are binomial.
 * If old blocks are kept at a ratio r to young ones, their share is r / (1 + r). The
 * probability is the larger one of two: that of so large an o if the row turns over, and of so
 * large a y if it has stopped (then the share is that of young blocks to old ones). r is 1/8. If a
 * tenth of the row or more was freed, and that lived long (a slice or more), the first r is at
 * least what such a risk of being freed leaves: exp(-h t), where t is the time between the two
 * parts, and h the frees per time that a sample was live (the estimate of an exponential lifetime).
 *
 * Every profile grows at first, and a program loads modules and reads its input for seconds:
 * nothing is said of the first five.
 *
 * Rows are judged together: a row grows if Holm's procedure rejects chance at 1 % (change_mark()).
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_TURNOVER_H
#define HEAPPROFD_PROFILE_COMPARE_TURNOVER_H

#include "profile/live_times.h"
#include "profile/view.h"

/* What the samples of a row have in common. Begin with zeros. */
struct turnover_facts {
    struct trace_figures figures;
    struct live_times_sum times;
};
void turnover_facts_add(struct turnover_facts *facts, const struct profile_sample *sample);

enum turnover_kind {
    TURNOVER_UNKNOWN, /* there are no times of what is live */
    TURNOVER_UNCLEAR, /* none of these */
    TURNOVER_GROWS,
    TURNOVER_TURNS_OVER, /* a part is freed, and nothing, or beyond chance less, is old */
    TURNOVER_STAYS,      /* nothing, or beyond chance less, is young */
};

enum turnover_pace { TURNOVER_PACE_UNKNOWN, TURNOVER_STEADY, TURNOVER_IN_STEPS };

struct turnover {
    enum turnover_kind kind;
    enum turnover_pace pace; /* if it grows */
    /* NAN: unknown, or there is none. */
    double freed;                /* share of the bytes ever allocated */
    double lifetime_ms;          /* mean, of the freed */
    double median_ms, oldest_ms; /* age of what is live; the median within half a slice_ms */
    double slice_ms;
    double bytes_per_second; /* of what is live, in the slices above */
    /* Of such ages by chance, and the least that so many samples can have. 1: not tested. */
    double probability, probability_least;
};

/* Measure a row of a dump. `known` is false if its figures are of several dumps: then only the
 * share freed is known. dump NULL: nothing is. */
struct turnover turnover_of(const struct turnover_facts *facts, const struct profile *profile,
                            const struct export_dump *dump, bool known);

/* Until then a program sets itself up, and every profile grows. */
#define TURNOVER_TIME_LEAST_MS 5000

/* If the profile is only too short at the dump to tell what grows, return the time that it needs.
 * Else return 0. */
uint64_t turnover_lacks_ms(const struct profile *profile, const struct export_dump *dump);

/* Return whether the dump knows when its live memory was allocated, and is not too early. */
bool turnover_can_judge(const struct profile *profile, const struct export_dump *dump);

/* Judge all rows of a heap: decide which of them grow. Return 0 or -ENOMEM. */
int turnover_judge(struct turnover *rows, size_t count);

#endif
