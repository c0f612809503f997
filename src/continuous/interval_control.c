/* SPDX-License-Identifier: Apache-2.0 */
/* Fill the bucket, estimate the rate, and choose the interval. */
#include "continuous/interval_control.h"

#include <math.h>

/* The parts of the budget that fill the bucket and that it holds. They add up to 1: an hour that
 * begins with a full bucket has no more than the budget. */
#define FILL 0.9
#define CAPACITY 0.1
#define HOUR_S 3600.0

/* Time constants of the rates. */
#define FAST_S 5.0
#define SLOW_S 300.0
/* Samples, if e were 1, that e is averaged over, and those that it begins with. */
#define EFFICIENCY_SAMPLES 20000.0
#define EFFICIENCY_PRIOR 10.0
/* Those that remain of them when the interval changes. */
#define RELEARN_SAMPLES 100.0

#define DRY_S 30.0
#define LOWER_PAUSE_MS 15000u
#define LOWER_ROOM 0.9

/* A request reaches the program within this time. */
#define REACTION_MS 2000u

static double fill_rate(const struct interval_limits *limits)
{
    return FILL * limits->samples_per_hour / HOUR_S;
}

static double capacity(const struct interval_limits *limits)
{
    return CAPACITY * limits->samples_per_hour;
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
        .step_ms = now_ms,
        .lowered_ms = now_ms,
        .bucket = capacity(limits),
    };
}

/* Move an average towards a new value that was measured over `seconds`. */
static double averaged(double average, double value, double seconds, double constant_s)
{
    return value + (average - value) * exp(-seconds / constant_s);
}

static void measure(struct interval_control *control, const struct interval_limits *limits,
                    double seconds, uint64_t samples, uint64_t bytes)
{
    double rate = (double)bytes / seconds;
    control->bucket += fill_rate(limits) * seconds;
    if (control->bucket > capacity(limits))
        control->bucket = capacity(limits);
    control->bucket -= (double)samples;
    control->rate = averaged(control->rate, rate, seconds, FAST_S);
    /* Bursts count at once, quiet times slowly. */
    if (rate > control->rate)
        control->rate = rate;
    control->slow_rate = averaged(control->slow_rate, rate, seconds, SLOW_S);
    control->samples_per_hour_lately = averaged(
        control->samples_per_hour_lately, (double)samples / seconds * HOUR_S, seconds, SLOW_S);
    /* Samples of the time before a request reached the program were drawn at another interval. */
    if (control->step_ms < control->changed_ms + REACTION_MS)
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
    control->drawn = control->due * fmin(e, 1);
    control->interval_bytes = interval;
    control->sample_rate = sample_rate;
    control->changed_ms = control->step_ms;
}

static int raise(struct interval_control *control, const struct interval_limits *limits)
{
    double fill = fill_rate(limits);
    double now = samples_rate(control, control->rate, control->interval_bytes);
    /* The program may allocate other sizes than before. */
    now = fmax(now, control->sample_rate);
    if (now <= fill || control->bucket > (now - fill) * DRY_S)
        return 0;
    /* A burst may use what the bucket has. A debt is repaid at half the rate. */
    double most = control->bucket < 0 ? fill / 2 : fmax(fill, control->bucket / DRY_S);
    uint64_t interval = control->interval_bytes;
    for (; interval < limits->most_bytes && now > most; now /= 2)
        interval *= 2;
    if (interval == control->interval_bytes)
        return 0;
    change(control, interval, now);
    return 1;
}

static int lower(struct interval_control *control, const struct interval_limits *limits,
                 uint64_t now_ms)
{
    uint64_t half = control->interval_bytes / 2;
    double fill = fill_rate(limits);
    if (half < limits->least_bytes || now_ms < control->lowered_ms + LOWER_PAUSE_MS ||
        control->bucket < capacity(limits) / 2)
        return 0;
    double rate = control->slow_rate > control->rate ? control->slow_rate : control->rate;
    if (samples_rate(control, rate, half) > LOWER_ROOM * fill)
        return 0;
    change(control, half, 2 * control->sample_rate);
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
    measure(control, limits, seconds, samples, bytes);
    control->step_ms = now_ms;
    /* The limits may have changed. */
    control->interval_bytes = allowed(limits, control->interval_bytes);
    if (!raise(control, limits))
        lower(control, limits, now_ms);
    return control->interval_bytes != before;
}
