/* SPDX-License-Identifier: Apache-2.0 */
/* The begin and the result of a split. */
#include "recorder/ledger/split_peak.h"

#include <math.h>

void split_peak_begin(struct split_peak *split, struct ledger_amount live,
                      struct ledger_amount highest)
{
    *split = (struct split_peak){.begun = true, .whole = live, .whole_highest = highest};
    for (unsigned i = 0; i < 2; i++)
        split->halves[i] = (struct split_half){live, highest.bytes, highest};
}

static double share_of(double one, double other, double highest)
{
    return highest > 0 ? fmax(fmin((one + other) / (2 * highest), 1), 0) : 1;
}

struct ledger_amount split_peak_share(const struct split_peak *split)
{
    const struct split_half *halves = split->halves;
    if (!split->begun)
        return (struct ledger_amount){1, 1};
    return (struct ledger_amount){
        share_of(halves[0].other.bytes, halves[1].other.bytes, split->whole_highest.bytes),
        share_of(halves[0].other.count, halves[1].other.count, split->whole_highest.count),
    };
}
