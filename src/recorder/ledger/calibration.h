/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calibration of one heap's samples by its exact totals.
 *
 * A sample with p < 1 stands for itself and for e = (1-p)/p missed allocations (ledger.h). The
 * client counts every call and every byte, so it is known exactly how much was missed: the exact
 * total less what was sampled. The ratio of that to the estimated sum of all e corrects each
 * sample: it stands for 1 + e r allocations, and s (1 + e r) bytes with a ratio of their own. So
 * the sums over a heap are the exact totals, no weight is below 1, and whatever was never freed is
 * exact, too. This is the ratio estimator of the missed part (Deville and Saerndal, 1992, for the
 * general form); docs/sampling.md derives its error.
 *
 * Dumps divide a heap's life into periods. A dump fixes the ratios of the period that it ends, and
 * from then on the figures of these samples change no more: totals only grow. Until then samples
 * have the weight 1/p. The time of a sample tells its period, when it is allocated as when it is
 * freed. A period in which few samples were expected keeps 1/p. Later ones make up for its
 * difference, as far as this changes them less than chance does.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_CALIBRATION_H
#define HEAPPROFD_RECORDER_LEDGER_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/barrier.h"

/* Bytes and allocations. */
struct ledger_amount {
    double bytes, count;
};

static inline void ledger_amount_add(struct ledger_amount *sum, double times,
                                     struct ledger_amount more)
{
    sum->bytes += times * more.bytes;
    sum->count += times * more.count;
}

/* What a sample stands for at p, without its size. */
struct weight {
    uint64_t size; /* size and interval are the key of the ledger's cache */
    uint32_t interval;
    uint32_t known;
    double count;          /* 1/p */
    double count_variance; /* (1-p)/p^2; 0: p = 1 */
    double half_count;     /* 1/p at twice the interval (split_peak.h) */
    double both;           /* probability that both halves have a sample that one of them has */
};

/* What a sample stands for: itself and the missed ones. */
struct worth {
    struct ledger_amount all, missed;
    bool is_open; /* its period is not over */
};

struct calibration_period {
    uint64_t end_ms;
    struct ledger_amount ratio;
};

/* Further periods are never closed: their samples keep 1/p. */
#define CALIBRATION_PERIODS_MAX UINT16_MAX

struct calibration {
    struct calibration_period *periods; /* the closed ones, by time */
    size_t capacity;
    uint16_t closed; /* number of closed periods; also the number of the open one */
    uint64_t now_ms; /* time of the newest event of a sample with p < 1 */
    struct ledger_amount missed, variance; /* of the open period's samples, by 1/p */
    struct ledger_amount settled;          /* missed ones of closed periods, calibrated */
    struct ledger_amount passed;           /* what closed periods missed in truth */
    double passed_bytes;                   /* and allocated */
    struct ledger_amount missed_by_chance; /* of all samples, by 1/p */
    double bytes_ratio_most;               /* the most by which missed bytes were multiplied */
};

void calibration_clear(struct calibration *calibration);

/* Return the closed period that has this time, or that before which it lies. */
const struct calibration_period *calibration_find(const struct calibration *calibration,
                                                  uint64_t time_ms);

/* Add what the allocation of a sample with p < 1 stands for. */
void calibration_add(struct calibration *calibration, const struct worth *worth,
                     const struct weight *weight, double size);

/* End the open period and fix its ratios. `missed`: what all samples missed in truth, the exact
 * totals less the samples themselves; allocated_bytes: the exact total. `may_wait`: leave a period
 * open that has few samples. Return the ratios; both are 1 if nothing changes. */
struct ledger_amount calibration_close(struct calibration *calibration, struct ledger_amount missed,
                                       double allocated_bytes, bool may_wait);

/* Return the most by which the missed bytes of a sample were multiplied. */
static inline double calibration_ratio_most(const struct calibration *calibration)
{
    bool has_open = calibration->missed.count > 0;
    return has_open && calibration->bytes_ratio_most < 1 ? 1 : calibration->bytes_ratio_most;
}

/* Note the time of an event. Events come nearly in order. */
static inline void calibration_note_time(struct calibration *calibration, uint64_t time_ms)
{
    if (time_ms > calibration->now_ms)
        calibration->now_ms = time_ms;
}

/* Return what a sample with p < 1 stands for. */
static inline struct worth calibration_worth(const struct calibration *calibration,
                                             const struct weight *weight, double size,
                                             uint64_t time_ms)
{
    struct worth worth = {.is_open = true};
    worth.missed = (struct ledger_amount){(weight->count - 1) * size, weight->count - 1};
    if (unlikely(calibration->closed > 0) &&
        time_ms <= calibration->periods[calibration->closed - 1].end_ms) {
        const struct calibration_period *period = calibration_find(calibration, time_ms);
        worth.missed.bytes *= period->ratio.bytes;
        worth.missed.count *= period->ratio.count;
        worth.is_open = false;
    }
    worth.all = (struct ledger_amount){size + worth.missed.bytes, 1 + worth.missed.count};
    return worth;
}

#endif
