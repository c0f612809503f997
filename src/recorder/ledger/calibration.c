/* SPDX-License-Identifier: Apache-2.0 */
/* Find a sample's period, and fix the ratios of a period that ends. */
#include "recorder/ledger/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"

/* Where fewer samples are expected, a ratio would add more error than it removes. What is expected
 * decides, and not the number that came: else periods with many samples were corrected downwards,
 * and those with few never upwards. */
#define SAMPLES_MIN 30.0

/* Chance explains a ratio up to this many standard deviations from 1. What lies beyond has another
 * cause (profile/agreement.h reports it) and must not distort the figures. */
#define DEVIATIONS_MAX 4.0

/* To make up for earlier periods, a ratio may change by this many standard deviations. */
#define DEVIATIONS_CARRIED_MAX 1.0

void calibration_clear(struct calibration *calibration)
{
    free(calibration->periods);
    *calibration = (struct calibration){0};
}

const struct calibration_period *calibration_find(const struct calibration *calibration,
                                                  uint64_t time_ms)
{
    size_t first = 0, end = calibration->closed - 1u;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (time_ms <= calibration->periods[middle].end_ms)
            end = middle;
        else
            first = middle + 1;
    }
    return &calibration->periods[first];
}

void calibration_add(struct calibration *calibration, const struct worth *worth,
                     const struct weight *weight, double size)
{
    const struct ledger_amount by_chance = {(weight->count - 1) * size, weight->count - 1};
    ledger_amount_add(&calibration->missed_by_chance, 1, by_chance);
    if (!worth->is_open) {
        ledger_amount_add(&calibration->settled, 1, worth->missed);
        return;
    }
    ledger_amount_add(&calibration->missed, 1, worth->missed);
    calibration->variance.bytes += weight->count_variance * size * size;
    calibration->variance.count += weight->count_variance;
}

static double limit(double value, double most)
{
    return fmax(fmin(value, most), -most);
}

/* Return the ratio of the period's missed ones: `own` in truth, `estimate` by the samples.
 * `carried`: what earlier periods lack. */
static double ratio_of(double own, double carried, double estimate, double variance)
{
    if (!(estimate > 0) || !(variance > 0))
        return 1;
    double deviation = sqrt(variance) / estimate;
    double ratio = own / estimate + limit(carried / estimate, DEVIATIONS_CARRIED_MAX * deviation);
    return fmax(1 + limit(ratio - 1, DEVIATIONS_MAX * deviation), 0);
}

struct ledger_amount calibration_close(struct calibration *calibration, struct ledger_amount missed,
                                       double allocated_bytes, bool may_wait)
{
    const struct ledger_amount estimate = calibration->missed, variance = calibration->variance,
                               passed = calibration->passed, settled = calibration->settled;
    struct calibration_period period = {calibration->now_ms, {1, 1}};
    /* A sample of small blocks stands for variance / estimate bytes, the interval. */
    bool has_few = (allocated_bytes - calibration->passed_bytes) * estimate.bytes <
                   SAMPLES_MIN * variance.bytes;
    if ((may_wait && has_few) || !(estimate.count > 0) ||
        calibration->closed >= CALIBRATION_PERIODS_MAX ||
        ARRAY_RESERVE(&calibration->periods, &calibration->capacity, calibration->closed, 1) < 0)
        return period.ratio;
    if (!has_few) {
        period.ratio.bytes = ratio_of(missed.bytes - passed.bytes, passed.bytes - settled.bytes,
                                      estimate.bytes, variance.bytes);
        period.ratio.count = ratio_of(missed.count - passed.count, passed.count - settled.count,
                                      estimate.count, variance.count);
    }
    calibration->bytes_ratio_most = fmax(calibration->bytes_ratio_most, period.ratio.bytes);
    calibration->settled.bytes += period.ratio.bytes * estimate.bytes;
    calibration->settled.count += period.ratio.count * estimate.count;
    calibration->passed = missed;
    calibration->passed_bytes = allocated_bytes;
    calibration->missed = calibration->variance = (struct ledger_amount){0};
    calibration->periods[calibration->closed++] = period;
    return period.ratio;
}
