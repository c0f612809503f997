/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of the sampling intervals: pure arithmetic, without clocks or processes.
 *
 * All processes of a program share an interval and a budget of samples per hour, N. The budget is a
 * bucket: it fills at 0.9 N an hour, holds at most 0.1 N, and each sample takes 1. So an hour has
 * at most N samples as long as the bucket is not overdrawn. Beside it is a store of 0.33 N, full at
 * first, from which the bucket is kept full: so a program begins fine, and its interval grows while
 * the store is used. From the beginning, or the first use, until an hour after the last use the
 * bucket fills at 0.55 N only, so that an hour has at most N again. Then what the bucket cannot
 * hold goes into the store, as long as less than half of the budget is used.
 *
 * Intervals are the least one times a power of two. With e the share of s/T that a sample of size s
 * has of being drawn (1 for small ones), a program that allocates r bytes a second is sampled e r /
 * T times a second. r is known exactly, so the law sees a change at once, without noise; e comes
 * from the samples.
 *
 *   raise  when the bucket would be empty within DRY_S, or the store within STORE_S, to the first
 *          interval at which it is not. e grows with T, up to 1, so that this may take a second
 *          step.
 *   lower  by one step if the rate at half the interval is below 0.9 of what refills, averaged over
 *          five minutes, and the bucket is at least half full; at most every LOWER_PAUSE_MS. e does
 *          not grow then, so that a steady program is not raised again: it does not oscillate.
 *          With a full store, at once and by as many steps as it bears for twice STORE_S. A program
 *          that would use less than half of the budget at one interval, and more than all at the
 *          next, has both in turn.
 *
 *          Where even the half of that would do, it is lowered to the last interval that does.
 *   off    when the longest interval takes too much, too: the program is not sampled, and its exact
 *          counters alone are known. It is sampled again at the longest interval as soon as the
 * rate of the last seconds allows that.
 *
 * An interval must also bear the next burst: two seconds at the highest rate of the last hour may
 * not take more than the bucket holds.
 *
 * The budget of a program may be divided (budget_split.h), and N change at any time. What a bucket
 * and a store hold beyond a smaller N is for the others: interval_control_give() and
 * interval_control_take() move it, so that all of them together use no more than one would.
 *
 * What a program allocates before a request reaches it, about two seconds at the interval in force,
 * can overdraw the bucket. The debt is repaid before the interval is lowered again.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_INTERVAL_CONTROL_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_INTERVAL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct interval_limits {
    double samples_per_hour;          /* N, above 0 */
    uint64_t least_bytes, most_bytes; /* of the interval; most is least times a power of two */
};

struct interval_control {
    uint64_t interval_bytes; /* to use now */
    bool is_off;             /* not sampled: the longest interval, which this is, takes too much */
    uint64_t begun_ms, step_ms, lowered_ms, changed_ms;
    uint64_t store_ms;              /* when the store was last used, or the beginning */
    double bucket;                  /* samples; below 0: overdrawn */
    double store;                   /* samples */
    double rate, slow_rate;         /* bytes a second: of the last seconds, of the last minutes */
    double peak_rate;               /* of a second, the highest of the last hour */
    double sample_rate;             /* samples a second, of the last seconds */
    double drawn, due;              /* samples, and bytes / T, with decay: e is about drawn / due */
    double samples_per_hour_lately; /* over the last minutes */
};

/* Begin with a full bucket and store. start_bytes: the interval that new processes have. */
void interval_control_begin(struct interval_control *control, const struct interval_limits *limits,
                            uint64_t start_bytes, uint64_t now_ms);

/* Take in what happened since the last step, and choose the interval. Return whether it changed. */
int interval_control_step(struct interval_control *control, const struct interval_limits *limits,
                          uint64_t now_ms, uint64_t samples, uint64_t bytes);

/* Take away the samples that the bucket and the store hold beyond what these limits allow. Return
 * their number. */
double interval_control_give(struct interval_control *control,
                             const struct interval_limits *limits);
/* Fill the bucket, then the store, with samples that others gave. Return what has no room. */
double interval_control_take(struct interval_control *control, const struct interval_limits *limits,
                             double samples);

#endif
