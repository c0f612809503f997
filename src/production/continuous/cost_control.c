/* SPDX-License-Identifier: Apache-2.0 */
/* Compare the cost with its bounds. */
#include "production/continuous/cost_control.h"

#include <math.h>

/* Of the bound. The start of many sessions takes more than a small bound of processor time, so
 * below a fifth of a processor that is no emergency. */
#define EMERGENCY 2
#define EMERGENCY_CPU 0.2

/* The credit is at most that of so many seconds, and so is a debt. */
#define CREDIT_S 300.0

/* The shares grow only below this part of the bounds. */
#define WELL_BELOW 0.7

void cost_control_begin(struct cost_control *control, uint64_t now_ms)
{
    *control = (struct cost_control){.changed_ms = now_ms};
}

/* Return the part of a bound that is used. A comparison with NAN is false, so an unknown cost is
 * none. */
static double cost_control_part_of(double used, double bound)
{
    return bound > 0 && used > 0 ? used / bound : 0;
}

enum cost_verdict cost_control_step(struct cost_control *control, const struct cost_seen *seen,
                                    uint64_t now_ms)
{
    double cpu = cost_control_part_of(seen->cpu_share, seen->cpu_bound);
    double memory = cost_control_part_of((double)seen->memory_bytes, (double)seen->memory_bound);
    bool is_emergency = (cpu > EMERGENCY && seen->cpu_share > EMERGENCY_CPU) || memory > EMERGENCY;
    if (now_ms < control->changed_ms + (is_emergency ? COST_EMERGENCY_MS : COST_PAUSE_MS))
        return COST_FINE;
    if (cpu > 1 || memory > 1) {
        control->changed_ms = now_ms;
        control->is_memory = memory > 1;
        return is_emergency || seen->share <= COST_SHARE_MIN ? COST_LEAVE_OUT : COST_LESS;
    }
    if (seen->least_share < 1 && cpu < WELL_BELOW && memory < WELL_BELOW) {
        control->changed_ms = now_ms;
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
