/* SPDX-License-Identifier: Apache-2.0 */
/* Fill the bucket, estimate the rate, and choose the interval. */
#include "production/continuous/interval_control.h"

#include <math.h>

/* The parts of the budget that fill the bucket and that it holds. They add up to 1: an hour that
 * begins with a full bucket has no more than the budget. So do they with the store. */
#define FILL 0.9
#define FILL_AFTER_STORE 0.55
#define CAPACITY 0.1
#define STORE 0.33
/* The bucket is filled from the store below this part of it: chance alone does not use the store.
 */
#define BUCKET_FULL 0.9
#define HOUR_S 3600.0
/* A debt is repaid within the hour that has too many samples. */
#define DEBT_MOST 0.5
/* Unused samples are stored while less than this part of the budget is used. */
#define USED_LEAST 0.5

/* Time constants of the rates. */
#define FAST_S 5.0
#define SLOW_S 300.0
/* Samples, if e were 1, that e is averaged over, and those that it begins with. */
#define EFFICIENCY_SAMPLES 20000.0
#define EFFICIENCY_PRIOR 10.0
/* Those that remain of them when the interval changes. */
#define RELEARN_SAMPLES 100.0

#define DRY_S 30.0
#define STORE_S 120.0
/* The store counts as full above this part of it. */
#define STORE_FULL 0.9
/* The rate of a program is not known before. */
#define MEASURED_MS 2000u
#define LOWER_PAUSE_MS 15000u
#define LOWER_ROOM 0.97

/* A request reaches the program within this time. */
#define REACTION_MS 2000u

static bool store_was_used(const struct interval_control *control)
{
    return control->step_ms < control->store_ms + (uint64_t)HOUR_S * 1000;
}

static double fill_rate(const struct interval_control *control,
                        const struct interval_limits *limits)
{
    return (store_was_used(control) ? FILL_AFTER_STORE : FILL) * limits->samples_per_hour / HOUR_S;
}

static double capacity(const struct interval_limits *limits)
{
    return CAPACITY * limits->samples_per_hour;
}

static double store_capacity(const struct interval_limits *limits)
{
    return STORE * limits->samples_per_hour;
}

/* Return an allowed interval that is not below `bytes`. */
static uint64_t allowed(const struct interval_limits *limits, uint64_t bytes)
{
    uint64_t interval = limits->least_bytes;
    while (interval < bytes && interval < limits->most_bytes)
        interval *= 2;
    return interval;
}

void interval_control_begin(struct interval_control *control, const struct interval_limits *limits,
                            uint64_t start_bytes, uint64_t now_ms)
{
    *control = (struct interval_control){
        .interval_bytes = allowed(limits, start_bytes),
        .begun_ms = now_ms,
        .step_ms = now_ms,
        .changed_ms = now_ms,
        .lowered_ms = now_ms,
        .store_ms = now_ms,
        .bucket = capacity(limits),
        .store = store_capacity(limits),
    };
}

/* --- what others gave, and what is for them --- */

static double take_beyond(double *held, double most)
{
    double beyond = fmax(*held - most, 0);
    *held -= beyond;
    return beyond;
}

double interval_control_give(struct interval_control *control, const struct interval_limits *limits)
{
    return take_beyond(&control->bucket, capacity(limits)) +
           take_beyond(&control->store, store_capacity(limits));
}

static double fill_up(double *held, double most, double samples)
{
    double taken = fmin(fmax(most - *held, 0), samples);
    *held += taken;
    return samples - taken;
}

double interval_control_take(struct interval_control *control, const struct interval_limits *limits,
                             double samples)
{
    samples = fill_up(&control->bucket, capacity(limits), samples);
    return fill_up(&control->store, store_capacity(limits), samples);
}

/* --- the law --- */

/* Move an average towards a new value that was measured over `seconds`. */
static double averaged(double average, double value, double seconds, double constant_s)
{
    return value + (average - value) * exp(-seconds / constant_s);
}

/* Fill the bucket, take the samples from it, and keep it full from the store. */
static void take_samples(struct interval_control *control, const struct interval_limits *limits,
                         double seconds, double samples)
{
    double most = capacity(limits), used = control->samples_per_hour_lately;
    control->store = fmin(control->store, store_capacity(limits)); /* the budget may have changed */
    control->bucket += fill_rate(control, limits) * seconds;
    double over = fmax(control->bucket - most, 0);
    if (!store_was_used(control) && used < USED_LEAST * limits->samples_per_hour)
        control->store = fmin(control->store + over, store_capacity(limits));
    control->bucket = fmin(control->bucket, most) - samples;
    control->bucket = fmax(control->bucket, -DEBT_MOST * limits->samples_per_hour);
    double missing = fmin(control->store, most - control->bucket);
    if (!(missing > 0) || control->bucket > BUCKET_FULL * most)
        return;
    control->store -= missing;
    control->bucket += missing;
    control->store_ms = control->step_ms + (uint64_t)(seconds * 1000);
}

static void measure(struct interval_control *control, const struct interval_limits *limits,
                    double seconds, uint64_t samples, uint64_t bytes)
{
    double rate = (double)bytes / seconds;
    take_samples(control, limits, seconds, (double)samples);
    control->peak_rate = fmax(rate, averaged(control->peak_rate, 0, seconds, HOUR_S));
    control->rate = averaged(control->rate, rate, seconds, FAST_S);
    /* Bursts count at once, quiet times slowly. */
    if (rate > control->rate)
        control->rate = rate;
    control->slow_rate = averaged(control->slow_rate, rate, seconds, SLOW_S);
    control->samples_per_hour_lately = averaged(
        control->samples_per_hour_lately, (double)samples / seconds * HOUR_S, seconds, SLOW_S);
    /* Samples of the time before a request reached the program were drawn at another interval. */
    if (control->step_ms < control->changed_ms + REACTION_MS || control->is_off)
        return;
    control->sample_rate =
        averaged(control->sample_rate, (double)samples / seconds, seconds, FAST_S);
    control->drawn += (double)samples;
    control->due += (double)bytes / (double)control->interval_bytes;
    if (control->due > EFFICIENCY_SAMPLES) {
        control->drawn *= EFFICIENCY_SAMPLES / control->due;
        control->due = EFFICIENCY_SAMPLES;
    }
}

/* Return e, near 1 until there are samples. */
static double efficiency(const struct interval_control *control)
{
    return (control->drawn + EFFICIENCY_PRIOR) / (control->due + EFFICIENCY_PRIOR);
}

/* Return the samples a second at this interval. */
static double samples_rate(const struct interval_control *control, double rate, uint64_t interval)
{
    return efficiency(control) * rate / (double)interval;
}

/* Use another interval. e is learned anew: it grows with the interval at most in proportion, and is
 * not above 1. */
static void change(struct interval_control *control, uint64_t interval, double sample_rate)
{
    double factor = (double)interval / (double)control->interval_bytes;
    double e = efficiency(control) * fmax(factor, 1);
    control->due = fmin(control->due, RELEARN_SAMPLES);
    control->drawn = fmin(e, 1) * (control->due + EFFICIENCY_PRIOR) - EFFICIENCY_PRIOR;
    control->interval_bytes = interval;
    control->sample_rate = sample_rate;
    control->changed_ms = control->step_ms;
}

static int raise(struct interval_control *control, const struct interval_limits *limits)
{
    double fill = fill_rate(control, limits);
    double spare = control->bucket / DRY_S + control->store / STORE_S;
    double now = samples_rate(control, control->rate, control->interval_bytes);
    /* The program may allocate other sizes than before. */
    now = fmax(now, control->sample_rate);
    if (now <= fill || spare > now - fill)
        return 0;
    /* A burst may use what there is. A debt is repaid at half the rate. */
    double most = control->bucket < 0 ? fill / 2 : fmax(fill, spare);
    uint64_t interval = control->interval_bytes;
    for (; interval < limits->most_bytes && now > most; now /= 2)
        interval *= 2;
    control->is_off = now > most;
    if (interval == control->interval_bytes && !control->is_off)
        return 0;
    change(control, interval, now);
    return 1;
}

/* Return whether a burst at this interval, until a request reaches the program, takes no more than
 * the bucket holds. */
static bool bears_a_burst(const struct interval_control *control,
                          const struct interval_limits *limits, uint64_t interval)
{
    double seconds = REACTION_MS / 1000.0;
    return samples_rate(control, control->peak_rate, interval) * seconds <= capacity(limits);
}

/* Return the lowest interval that a full store bears, or the present one. */
static uint64_t lowest_by_store(const struct interval_control *control,
                                const struct interval_limits *limits, double rate)
{
    uint64_t interval = control->interval_bytes;
    if (control->store < STORE_FULL * store_capacity(limits) ||
        control->step_ms < control->begun_ms + MEASURED_MS)
        return interval;
    while (interval / 2 >= limits->least_bytes &&
           samples_rate(control, rate, interval / 2) <= control->store / (2 * STORE_S) &&
           bears_a_burst(control, limits, interval / 2))
        interval /= 2;
    return interval;
}

/* Return the lowest interval that what refills bears, or the present one. */
static uint64_t lowest_by_bucket(const struct interval_control *control,
                                 const struct interval_limits *limits, double rate)
{
    uint64_t interval = control->interval_bytes;
    while (interval / 2 >= limits->least_bytes &&
           samples_rate(control, rate, interval / 2) <= LOWER_ROOM * fill_rate(control, limits) &&
           bears_a_burst(control, limits, interval / 2))
        interval /= 2;
    return interval;
}

/* Sample again at the longest interval if what refills bears it. The slow rate does not count: it
 * is still that of before. */
static void begin_again(struct interval_control *control, const struct interval_limits *limits)
{
    double samples = samples_rate(control, control->rate, limits->most_bytes);
    if (control->step_ms < control->changed_ms + LOWER_PAUSE_MS ||
        samples > LOWER_ROOM * fill_rate(control, limits))
        return;
    change(control, limits->most_bytes, samples);
    control->is_off = false;
}

static int lower(struct interval_control *control, const struct interval_limits *limits,
                 uint64_t now_ms)
{
    double rate = control->slow_rate > control->rate ? control->slow_rate : control->rate;
    uint64_t interval = lowest_by_store(control, limits, rate);
    if (interval == control->interval_bytes && now_ms >= control->lowered_ms + LOWER_PAUSE_MS &&
        control->bucket >= capacity(limits) / 2)
        interval = lowest_by_bucket(control, limits, rate);
    if (interval == control->interval_bytes)
        return 0;
    change(control, interval,
           control->sample_rate * (double)control->interval_bytes / (double)interval);
    control->lowered_ms = now_ms;
    return 1;
}

int interval_control_step(struct interval_control *control, const struct interval_limits *limits,
                          uint64_t now_ms, uint64_t samples, uint64_t bytes)
{
    if (now_ms <= control->step_ms)
        return 0;
    double seconds = (double)(now_ms - control->step_ms) / 1000;
    uint64_t before = control->interval_bytes;
    bool was_off = control->is_off;
    measure(control, limits, seconds, samples, bytes);
    control->step_ms = now_ms;
    /* The limits may have changed. */
    control->interval_bytes = allowed(limits, control->interval_bytes);
    if (control->is_off)
        begin_again(control, limits);
    else if (!raise(control, limits))
        lower(control, limits, now_ms);
    return control->interval_bytes != before || control->is_off != was_off;
}
