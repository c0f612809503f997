/* SPDX-License-Identifier: Apache-2.0 */
/* Compare the cost with its bounds. */
#include "continuous/cost_control.h"

#include <math.h>

/* Of the bound. The start of many sessions takes more than a small bound of processor time. */
#define EMERGENCY 2
#define EMERGENCY_CPU 0.2

/* The credit is at most that of so many seconds, and so is a debt. */
#define CREDIT_S 300.0

#define GROWTH 1.25
/* The share grows only below this part of the bounds. */
#define WELL_BELOW 0.7

void cost_control_begin(struct cost_control *control, uint64_t now_ms)
{
    *control = (struct cost_control){.share = 1, .changed_ms = now_ms};
}

enum cost_verdict cost_control_step(struct cost_control *control, double cpu_share,
                                    double cpu_bound, uint64_t memory_bytes, uint64_t memory_bound,
                                    uint64_t now_ms)
{
    /* A comparison with NAN is false, so an unknown cost changes nothing. */
    double cpu = cpu_bound > 0 && cpu_share > 0 ? cpu_share / cpu_bound : 0;
    double memory = memory_bound > 0 ? (double)memory_bytes / (double)memory_bound : 0;
    bool is_emergency = (cpu > EMERGENCY && cpu_share > EMERGENCY_CPU) || memory > EMERGENCY;
    if (now_ms < control->changed_ms + (is_emergency ? COST_EMERGENCY_MS : COST_PAUSE_MS))
        return COST_FINE;
    if (cpu > 1 || memory > 1) {
        control->changed_ms = now_ms;
        control->is_memory = memory > 1;
        if (is_emergency || control->share <= COST_SHARE_MIN)
            return COST_LEAVE_OUT;
        control->share /= 2;
        return COST_LESS;
    }
    if (control->share < 1 && cpu < WELL_BELOW && memory < WELL_BELOW) {
        control->changed_ms = now_ms;
        control->share = control->share * GROWTH < 1 ? control->share * GROWTH : 1;
        return COST_MORE;
    }
    return COST_FINE;
}

void cost_control_spend(struct cost_control *control, double used_s, double seconds,
                        double cpu_bound)
{
    double most = cpu_bound * CREDIT_S;
    if (!(seconds > 0) || !(used_s >= 0))
        return;
    control->credit_s = fmin(control->credit_s + cpu_bound * seconds, most) - used_s;
    control->credit_s = fmax(control->credit_s, -most);
}

bool cost_control_may_dump(const struct cost_control *control, double cpu_bound,
                           double late_periods)
{
    return cpu_bound <= 0 || control->credit_s >= 0 || late_periods >= COST_DUMP_WAIT_PERIODS;
}
