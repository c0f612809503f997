/* SPDX-License-Identifier: Apache-2.0 */
/* Compare samples with processor time, and choose the number of doublings. */
#include "client/sample/sample_rate.h"

#include <time.h>

#include "client/clock.h"
#include "client/sample/adaptive.h"
#include "client/system.h"

/* A check is due after the samples that the limit allows in this part of a second, so that a
 * program's first samples are not many more, or after a second. */
#define CHECKS_A_SECOND 40u
#define PAUSE_MS 1000u

/* A process may have this part of a second's samples beyond the limit, so that a program of a few
 * milliseconds has enough of them to tell something. */
#define SPARE_PARTS 10u

/* Shorter intervals must leave samples at this part of the limit, or else they would soon be
 * lengthened again. */
#define REST_PARTS 2u

static void set_limit(uint32_t limit)
{
    store_relaxed(&client.process->rate_spare, limit / SPARE_PARTS);
    store_relaxed(&client.process->samples_limit, limit);
}

void sample_rate_begin(uint64_t interval_bytes)
{
    bool is_limited = client.max_samples != 0 && client.max_samples != UINT32_MAX;
    store_relaxed(&client.process->rate_samples, 0);
    set_limit(is_limited && interval_bytes != 1 ? client.max_samples : 0);
}

void sample_rate_begin_python(uint64_t interval_bytes)
{
    if (client.max_samples == 0 && interval_bytes != 1 && adaptive_rule(0)->interval_bytes != 1)
        set_limit(SAMPLE_RATE_PYTHON);
}

/* Return the process's processor time in microseconds, or a clock's time if it cannot be read: that
 * limits the samples of a second. */
static uint64_t processor_time_us(void)
{
    struct timespec now = {0};
    if (system_call(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
        return clock_now_us();
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Return the number of doublings that suits `samples` samples where `allowed` were allowed. */
static uint32_t choose(uint32_t doublings, uint64_t samples, uint64_t allowed)
{
    while (samples > allowed && doublings + 1 < ADAPTIVE_RULES_MAX) {
        samples /= 2;
        doublings++;
    }
    while (samples * 2 <= allowed / REST_PARTS && doublings > adaptive_asked()) {
        samples *= 2;
        doublings--;
    }
    return doublings;
}

/* Return the samples that `passed_us` of processor time allow, of which `samples` came, with what
 * is taken from the spare ones. */
static uint64_t allowed_in(uint64_t passed_us, uint32_t limit, uint32_t samples)
{
    uint64_t allowed = passed_us * limit / 1000000;
    if (samples <= allowed)
        return allowed;
    uint32_t spare = load_relaxed(&client.process->rate_spare);
    uint64_t excess = samples - allowed, taken = excess < spare ? excess : spare;
    store_relaxed(&client.process->rate_spare, spare - (uint32_t)taken);
    return allowed + taken;
}

void sample_rate_check(struct ring_thread *thread, uint32_t limit, uint32_t samples)
{
    struct client_process *process = client.process;
    uint32_t now_ms = (uint32_t)clock_now_ms();
    if (samples < limit / CHECKS_A_SECOND &&
        now_ms - load_relaxed(&process->rate_checked_ms) < PAUSE_MS)
        return;
    /* Whoever takes the count makes the check. */
    if (!cas_relaxed(&process->rate_samples, &samples, 0))
        return;
    uint64_t now_us = processor_time_us(), then_us = load_relaxed(&process->rate_checked_us);
    store_relaxed(&process->rate_checked_us, now_us);
    store_relaxed(&process->rate_checked_ms, now_ms);
    uint64_t passed_us = now_us > then_us ? now_us - then_us : 0;
    uint32_t now = adaptive_index(), next = choose(now, samples, allowed_in(passed_us, limit, samples));
    if (next != now)
        adaptive_change(thread, next);
}
