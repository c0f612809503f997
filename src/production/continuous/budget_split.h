/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one budget is divided among those who ask for it: pure arithmetic.
 *
 * They are ranked by when they came. Of k, the one of rank r (0: the first) has
 *
 *     1/((r + 1)(r + 2)) + 1/(k (k + 1))
 *
 * of the budget. The sum is 1, and one alone has all of it. The first term does not depend on k:
 * the first keeps half of the budget, the second a sixth, the third a twelfth, whatever number of
 * others come. Only the rest is divided anew with each of them.
 *
 * One who cannot use his part, because his programs do little at the finest interval, lends three
 * quarters of it to the others, and has it back at once.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_BUDGET_SPLIT_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_BUDGET_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget_part {
    const char *user; /* who asks for it, perhaps in several places: units, containers */
    uint64_t came;    /* the order of coming; different for all */
    bool is_quiet;    /* it cannot use its part */
    size_t index;     /* for the caller */
    double share;     /* 0 to 1; the result */
};

/* Divide a budget among users, and the part of each among his places. Changes the order. */
void budget_split(struct budget_part *parts, size_t count);

#endif
