/* SPDX-License-Identifier: Apache-2.0 */
#include "production/sinks/backoff.h"

#include <sys/random.h>

/* Return a random number in [0, below). */
static uint64_t random_below(uint64_t below)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number) || below == 0)
        return 0;
    return number % below;
}

void backoff_fail(struct backoff *backoff, uint64_t now_ms, uint64_t retry_after_ms)
{
    uint64_t delay_ms = backoff->first_ms;
    for (unsigned i = 0; i < backoff->failures && delay_ms < backoff->max_ms; i++)
        delay_ms *= 2;
    if (delay_ms > backoff->max_ms)
        delay_ms = backoff->max_ms;
    delay_ms = delay_ms / 2 + random_below(delay_ms / 2 + 1);
    if (retry_after_ms > BACKOFF_RETRY_AFTER_MS_MAX)
        retry_after_ms = BACKOFF_RETRY_AFTER_MS_MAX;
    if (delay_ms < retry_after_ms)
        delay_ms = retry_after_ms + random_below(backoff->first_ms);
    backoff->failures++;
    backoff->due_ms = now_ms + delay_ms;
}

void backoff_succeed(struct backoff *backoff)
{
    backoff->failures = 0;
    backoff->due_ms = 0;
}
