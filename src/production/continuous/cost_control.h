/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of the daemon's own cost: when the programs of the user who has most samples get
 * less, and when one must be left out. Pure arithmetic.
 *
 * If processor time or memory comes to its bound, that user's share is halved at most once in
 * COST_PAUSE_MS, because a change needs time to show. Nobody else's is: the bound is not one user's
 * to spend. At COST_SHARE_MIN one program is left out each time instead. Beyond twice the bound of
 * memory, or of processor time and above a fifth of a processor, a program is left out every
 * COST_EMERGENCY_MS. If both are well below their bounds, the shares grow slowly.
 *
 * Samples are not all that costs: attaching to the programs, and reading the names of the first
 * dumps, take more than a small bound for minutes. So processor time is also a credit, which grows
 * by the bound. While it is used up, the next dump waits, COST_DUMP_WAIT_PERIODS at most.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_COST_CONTROL_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_COST_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define COST_PAUSE_MS 120000u
#define COST_EMERGENCY_MS 9000u
#define COST_DUMP_WAIT_PERIODS 5u
#define COST_SHARE_MIN (1.0 / 32)
#define COST_GROWTH 1.25 /* of the shares, with COST_MORE */

enum cost_verdict {
    COST_FINE,
    COST_LESS, /* half for the user with most samples */
    COST_MORE, /* COST_GROWTH for all */
    COST_LEAVE_OUT,
};

struct cost_control {
    uint64_t changed_ms;
    bool is_memory; /* the last bound that was reached is that of memory */
    double
        credit_s; /* processor time that may be used at once; below 0: used before it was there */
};

void cost_control_begin(struct cost_control *control, uint64_t now_ms);

/* Take the cost and its bounds (0: none; a cpu_share of NAN is unknown), and the shares of the user
 * with most samples and of the one who has least left. Return what to do. */
struct cost_seen {
    double cpu_share, cpu_bound;
    uint64_t memory_bytes, memory_bound;
    double share, least_share; /* 0 to 1 */
};
enum cost_verdict cost_control_step(struct cost_control *control, const struct cost_seen *seen,
                                    uint64_t now_ms);

/* Take the processor time that was used in the last seconds. */
void cost_control_spend(struct cost_control *control, double used_s, double seconds,
                        double cpu_bound);

/* Return whether a dump that is due may be taken now; late_periods: how many periods ago it was
 * due.
 */
bool cost_control_may_dump(const struct cost_control *control, double cpu_bound,
                           double late_periods);

#endif
