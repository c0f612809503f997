/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peak of one heap without the bias of the largest of many estimates.
 *
 * The estimate of live bytes fluctuates around the truth, so its highest value is too high: at
 * interval 4096 a program that churns 0.9 MB has a highest estimate that is 16 % above its peak, at
 * 524288 3.5 times as high. The remedy is sample splitting. The points of the sampling process
 * (docs/sampling.md) fall to one of two halves at random, so a sample is in the first, the second,
 * or both, and each half is a sample at twice the interval that knows nothing of the other. One
 * half chooses the moment where its own estimate is highest; the other one says what was live then.
 * The mean of both such values has no bias for the moments that were chosen. Its share of the
 * highest estimate is the factor by which the missed part of the peak is corrected.
 *
 * The halves need no calibration, because only their share counts.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_SPLIT_PEAK_H
#define HEAPPROFD_RECORDER_LEDGER_SPLIT_PEAK_H

#include "recorder/ledger/calibration.h"
#include "util/keyed_hash.h"

struct split_peak {
    bool begun; /* a sample had p < 1 */
    /* Live now, and when it was highest, by all samples with 1/p. */
    struct ledger_amount whole, whole_highest;
    struct split_half {
        struct ledger_amount live;
        double highest_bytes;
        struct ledger_amount other; /* what the other half had when this one was highest */
    } halves[2];
};

/* Begin with the first sample with p < 1: so far all was exact. */
void split_peak_begin(struct split_peak *split, struct ledger_amount live,
                      struct ledger_amount highest);

/* Return in which halves a sample is, as bits. `key` and `ordinal` tell it from all others. */
static inline unsigned split_peak_halves(const struct weight *weight, uint64_t key,
                                         uint32_t ordinal)
{
    if (weight->count_variance == 0)
        return 3;
    uint64_t random = keyed_hash_pair(key, (uint64_t)ordinal << 32);
    random = keyed_hash_pair(random, random >> 32);
    return (double)(uint32_t)random < weight->both * 0x1p32 ? 3 : 1u + (unsigned)(random >> 63);
}

/* Add a sample that becomes live (times 1), or subtract it (-1). */
static inline void split_peak_change(struct split_peak *split, const struct weight *weight,
                                     double size, unsigned halves, double times)
{
    ledger_amount_add(&split->whole, times,
                      (struct ledger_amount){size * weight->count, weight->count});
    const struct ledger_amount half = {size * weight->half_count, weight->half_count};
    for (unsigned i = 0; i < 2; i++)
        if ((halves & 1u << i) != 0)
            ledger_amount_add(&split->halves[i].live, times, half);
    if (times < 0)
        return;
    if (split->whole.bytes > split->whole_highest.bytes)
        split->whole_highest = split->whole;
    for (unsigned i = 0; i < 2; i++) {
        struct split_half *chooser = &split->halves[i];
        if (chooser->live.bytes <= chooser->highest_bytes)
            continue;
        chooser->highest_bytes = chooser->live.bytes;
        chooser->other = split->halves[1 - i].live;
    }
}

/* Return the share of the highest estimate that is no bias: at most 1. */
struct ledger_amount split_peak_share(const struct split_peak *split);

#endif
