/* SPDX-License-Identifier: Apache-2.0 */
/* Watch the ring's free room, and double the interval at most once in PAUSE_MS; take the interval
 * that the daemon asks for. */
#include "client/sample/adaptive.h"

#include <stddef.h>

#include "client/clock.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "wire/record.h"
#include "wire/sampling.h"

/* Pause between two doublings: the daemon drains a crowded ring every few milliseconds. */
#define PAUSE_MS 20

/* A session that begins with a request will send another one, but not at once. Until then the
 * interval is doubled after so many samples: a process that allocates much takes few samples, and
 * many processes that begin at once, too. */
#define UNANSWERED_SAMPLES 16u

/* By number of doublings; [0] is the session's own. Threads may set the others at the same time, to
 * the same values. */
static struct sampler_rule rules[ADAPTIVE_RULES_MAX];

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

/* Threads may set a rule at the same time, to the same values. The number is used only after its
 * record is in the ring. */
bool adaptive_change(struct ring_thread *thread, uint32_t index)
{
    if (index >= ADAPTIVE_RULES_MAX)
        return false;
    uint64_t interval_bytes = adaptive_interval(rules[0].interval_bytes, index);
    struct record_interval *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return false;
    record->interval_bytes = interval_bytes;
    record->index = index;
    if (!ring_writer_commit(thread, record, RECORD_INTERVAL))
        return false;
    rules[index] = sampler_rule_of(interval_bytes, index);
    if (adaptive_is_limited())
        live_set_expect_few(&sample_live_set, index > 0);
    store_release(&client.process->interval_index, index);
    return true;
}

/* Double the interval. Called by one thread at a time. */
static void lengthen(struct ring_thread *thread)
{
    uint32_t index = adaptive_index();
    uint64_t bound = client.adaptive_max_interval_bytes;
    if (bound == 0 || adaptive_rule(index)->interval_bytes <= bound / 2)
        adaptive_change(thread, index + 1);
}

/* Take the interval that the daemon asks for. Each request is served by one thread. */
static void serve_request(struct ring_thread *thread, uint32_t asked)
{
    uint32_t served = load_relaxed(&client.process->served_doublings);
    if (asked == served || !cas_acq_rel(&client.process->served_doublings, &served, asked))
        return;
    uint32_t next = ring_asked_doublings(asked);
    if (next != adaptive_index())
        adaptive_change(thread, next);
}

void adaptive_serve(struct ring_thread *thread)
{
    uint32_t asked = load_relaxed(&client.control->asked_doublings);
    if (unlikely(asked != load_relaxed(&client.process->served_doublings)))
        serve_request(thread, asked);
}

/* Return whether this sample is the last one of its interval, before the daemon's answer. */
static bool must_wait_for_answer(void)
{
    if (likely(!ring_asked_first(load_relaxed(&client.process->served_doublings))) ||
        adaptive_rule(adaptive_index())->interval_bytes <= 1 ||
        add_relaxed(&client.process->unanswered_samples, 1) != UNANSWERED_SAMPLES - 1)
        return false;
    store_relaxed(&client.process->unanswered_samples, 0);
    return true;
}

void adaptive_adjust(struct ring_thread *thread)
{
    adaptive_serve(thread);
    if (unlikely(must_wait_for_answer()))
        lengthen(thread);
    if (likely(client.adaptive_threshold_bytes == 0) || likely(!ring_is_crowded()))
        return;
    uint32_t now_ms = (uint32_t)clock_now_ms();
    uint32_t last_ms = load_relaxed(&client.process->lengthened_ms);
    if (now_ms - last_ms < PAUSE_MS ||
        !cas_acq_rel(&client.process->lengthened_ms, &last_ms, now_ms))
        return;
    lengthen(thread);
}
