/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of the daemon's own cost: which share of the programs' budgets may be used, and
 * when a program must be left out. Pure arithmetic.
 *
 * If processor time or memory comes to its bound, the share is halved at most once in
 * COST_PAUSE_MS, because a change needs time to show. Below COST_SHARE_MIN one program is left out
 * each time instead. Beyond twice a bound a program is left out every COST_EMERGENCY_MS. If both
 * are well below their bounds, the share grows slowly.
 *
 * Samples are not all that costs: attaching to the programs, and reading the names of the first
 * dumps, take more than a small bound for minutes. So processor time is also a credit, which grows
 * by the bound. While it is used up, the next dump waits, COST_DUMP_WAIT_PERIODS at most.
 */
#ifndef HEAPPROFD_CONTINUOUS_COST_CONTROL_H
#define HEAPPROFD_CONTINUOUS_COST_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define COST_PAUSE_MS 120000u
#define COST_EMERGENCY_MS 9000u
#define COST_DUMP_WAIT_PERIODS 5u
#define COST_SHARE_MIN (1.0 / 32)

enum cost_verdict { COST_FINE, COST_LESS, COST_MORE, COST_LEAVE_OUT };

struct cost_control {
    double share; /* 0 to 1 */
    uint64_t changed_ms;
    bool is_memory; /* the last bound that was reached is that of memory */
    double credit_s; /* processor time that may be used at once; below 0: used before it was there */
};

void cost_control_begin(struct cost_control *control, uint64_t now_ms);

/* Take the cost and its bounds (0: none; a cpu_share of NAN is unknown). Return what to do. */
enum cost_verdict cost_control_step(struct cost_control *control, double cpu_share,
                                    double cpu_bound, uint64_t memory_bytes, uint64_t memory_bound,
                                    uint64_t now_ms);

/* Take the processor time that was used in the last seconds. */
void cost_control_spend(struct cost_control *control, double used_s, double seconds,
                        double cpu_bound);

/* Return whether a dump that is due may be taken now; late_periods: how many periods ago it was due.
 */
bool cost_control_may_dump(const struct cost_control *control, double cpu_bound,
                           double late_periods);

#endif
