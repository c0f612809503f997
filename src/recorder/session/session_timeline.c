/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the targets' counters and threads are read. Together they take at most one part in
 * SHARE of the time of one processor: if there are many processes, or processes of many threads,
 * each is read less often, one after the other.
 */
#include "recorder/session/session_state.h"
#include "util/clock.h"

#define SHARE 100u
/* The processor time that may be saved up for one turn. */
#define SAVED_NS_MAX (10u * 1000000u)
/* The period of what changes slowly. */
#define THREADS_PERIOD_MS 1000u
/* The time after which the rings are drained again. */
#define DRAIN_PERIOD_MS 20u

/* Return whether a turn is due, and when the next one is. */
static bool take_turn(uint64_t *due_ms, uint32_t period_ms, uint64_t now_ms)
{
    if (now_ms < *due_ms)
        return false;
    /* In step with the clock, unless turns were left out. */
    *due_ms = *due_ms + period_ms > now_ms ? *due_ms + period_ms : now_ms + period_ms;
    return true;
}

/* Write what is due of a target. */
static void write_target(struct session *session, struct target *target, uint64_t now_ms)
{
    const struct heap_timeline *config = &session->config->timeline;
    struct session_timeline *timeline = &session->timeline;
    if (timeline->allowed_ns <= 0)
        return;
    uint64_t began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (take_turn(&target->counters_due_ms, config->process_ms, now_ms))
        target_write_memory_point(target, session->writer, !config->off);
    if (!config->off && take_turn(&target->threads_due_ms, THREADS_PERIOD_MS, now_ms))
        target_write_threads(target, session->writer, timeline->cgroups);
    timeline->allowed_ns -= (int64_t)(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
}

static void allow_more(struct session_timeline *timeline)
{
    uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC);
    if (timeline->allowed_since_ns == 0) {
        timeline->allowed_ns = SAVED_NS_MAX;
        system_watch_find_cgroups(timeline->cgroups, sizeof(timeline->cgroups));
    } else {
        timeline->allowed_ns += (int64_t)((now_ns - timeline->allowed_since_ns) / SHARE);
    }
    if (timeline->allowed_ns > (int64_t)SAVED_NS_MAX)
        timeline->allowed_ns = SAVED_NS_MAX;
    timeline->allowed_since_ns = now_ns;
}

void session_sample_memory(struct session *session)
{
    struct session_timeline *timeline = &session->timeline;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC), drained_ms = now_ms;
    trace_writer_stream_flush(session->writer);
    allow_more(timeline);
    if (!session->config->timeline.off)
        system_watch_tick(&timeline->system, &session->config->timeline, session->writer, now_ms);
    for (size_t i = 0; i < session->target_count; i++) {
        /* Reading a process's mappings takes up to a second. */
        if (clock_read_ms(CLOCK_MONOTONIC) >= drained_ms + DRAIN_PERIOD_MS) {
            session_drain(session);
            drained_ms = clock_read_ms(CLOCK_MONOTONIC);
        }
        target_notice_changes(session->targets[i], session->target_count);
    }
    /* Begin with another target each time, so that each has its turn. */
    for (size_t i = 0;
         !session->config->background && i < session->target_count && timeline->allowed_ns > 0; i++)
        write_target(session, session->targets[timeline->next++ % session->target_count], now_ms);
    trace_writer_stream_flush(session->writer);
}
