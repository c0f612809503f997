/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of shares and delays; the caller reads the clocks. */
#include "recorder/server/attach_budget.h"

#define PPM UINT64_C(1000000)

uint32_t attach_budget_share_ppm(size_t users, size_t own_sessions)
{
    size_t parts = (users > 0 ? users : 1) * (own_sessions > 0 ? own_sessions : 1);
    return parts < ATTACH_BUDGET_MACHINE_PPM ? ATTACH_BUDGET_MACHINE_PPM / (uint32_t)parts : 1;
}

void attach_budget_set_share(struct attach_budget *budget, uint32_t share_ppm, uint64_t now_us)
{
    uint32_t before_ppm = budget->share_ppm;
    budget->share_ppm = share_ppm > 0 ? share_ppm : 1;
    if (budget->due_us > now_us)
        budget->due_us =
            now_us + (budget->due_us - now_us) / budget->share_ppm * before_ppm +
            (budget->due_us - now_us) % budget->share_ppm * before_ppm / budget->share_ppm;
}

void attach_budget_charge(struct attach_budget *budget, uint64_t used_us, uint64_t now_us)
{
    uint64_t from_us = budget->due_us > now_us ? budget->due_us : now_us;
    budget->due_us = from_us + used_us * PPM / budget->share_ppm;
}

uint64_t attach_budget_due_ms(const struct attach_budget *budget)
{
    return (budget->due_us + 999) / 1000;
}
