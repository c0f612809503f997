/* SPDX-License-Identifier: Apache-2.0 */
/* Watch the ring's free room, and double the interval at most once in PAUSE_MS. */
#include "client/sample/adaptive.h"

#include <stddef.h>

#include "client/clock.h"
#include "client/sample/ring_writer.h"
#include "wire/record.h"
#include "wire/sampling.h"

/* Doublings: 2^40 times any interval exceeds every memory. */
#define RULES_MAX 40

/* Pause between two doublings: the daemon drains a crowded ring every few milliseconds. */
#define PAUSE_MS 20

static struct sampler_rule rules[RULES_MAX]; /* [0]: the session's own */

void adaptive_begin(struct sampler_rule rule)
{
    rules[0] = rule;
}

const struct sampler_rule *adaptive_rule(uint32_t index)
{
    return &rules[index];
}

static bool ring_is_crowded(void)
{
    uint64_t used =
        load_relaxed(&client.control->reserved) - load_relaxed(&client.control->consumed);
    return client.data_mask + 1 - used < client.adaptive_threshold_bytes;
}

/* Called by one thread at a time. The new number is used only after its record is in the ring. */
static void lengthen(struct ring_thread *thread)
{
    uint32_t index = adaptive_index(), next = index + 1;
    uint64_t interval_bytes = adaptive_rule(index)->interval_bytes;
    uint64_t bound = client.adaptive_max_interval_bytes;
    if (next == RULES_MAX || interval_bytes > UINT64_MAX / 8 ||
        (bound != 0 && interval_bytes * 2 > bound))
        return;
    interval_bytes *= 2;
    struct record_interval *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return;
    record->interval_bytes = interval_bytes;
    record->index = next;
    if (!ring_writer_commit(thread, record, RECORD_INTERVAL))
        return;
    rules[next] = (struct sampler_rule){interval_bytes, sampling_certain_bytes(interval_bytes)};
    store_release(&client.process->interval_index, next);
}

void adaptive_adjust(struct ring_thread *thread)
{
    if (likely(client.adaptive_threshold_bytes == 0) || likely(!ring_is_crowded()))
        return;
    uint32_t now_ms = (uint32_t)clock_now_ms();
    uint32_t last_ms = load_relaxed(&client.process->lengthened_ms);
    if (now_ms - last_ms < PAUSE_MS ||
        !cas_acq_rel(&client.process->lengthened_ms, &last_ms, now_ms))
        return;
    lengthen(thread);
}
