/* SPDX-License-Identifier: Apache-2.0 */
/* Decide when the next checkpoint is due, by the cost of the earlier ones in time and bytes. */
#include "recorder/dump/checkpoints.h"

#include "util/clock.h"

#define FIRST_MS 1000u
#define PERIOD_MS 60000u
/* The pause after a checkpoint takes at least this many times as long as the processor needed for
 * it. Time in which others had the processor does not count: on a loaded machine checkpoints would
 * become rare. */
#define PAUSE_TIMES 50u
#define FREE_BYTES (UINT64_C(16) << 20)

void checkpoints_start(struct checkpoints *checkpoints, uint64_t now_ms)
{
    *checkpoints = (struct checkpoints){.start_ms = now_ms, .due_ms = now_ms + FIRST_MS};
}

void checkpoints_put_off(struct checkpoints *checkpoints, uint64_t now_ms)
{
    /* The session has not profiled anything yet: its first process may join at any time. */
    if (checkpoints->written_bytes == 0) {
        checkpoints_start(checkpoints, now_ms);
        return;
    }
    uint64_t age_ms = now_ms - checkpoints->start_ms;
    checkpoints->due_ms = now_ms + (age_ms < PERIOD_MS ? age_ms : PERIOD_MS);
}

/* Set when the next checkpoint is due. The last one took cost_ms of processor time. */
static void plan(struct checkpoints *checkpoints, const struct trace_writer *writer,
                 uint64_t now_ms, uint64_t cost_ms)
{
    uint64_t age_ms = now_ms - checkpoints->start_ms, pause_ms = age_ms;
    uint64_t others_bytes = trace_writer_bytes(writer) - checkpoints->written_bytes;
    bool is_cheap =
        checkpoints->written_bytes <= FREE_BYTES || checkpoints->written_bytes <= others_bytes;
    if (is_cheap && pause_ms > PERIOD_MS)
        pause_ms = PERIOD_MS;
    if (pause_ms < cost_ms * PAUSE_TIMES)
        pause_ms = cost_ms * PAUSE_TIMES;
    checkpoints->due_ms = now_ms + pause_ms;
}

struct trace_writer *checkpoints_begin(struct checkpoints *checkpoints, struct trace_writer *writer)
{
    struct trace_checkpoint begun = {0};
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &begun);
    if (part != NULL) {
        checkpoints->before = checkpoints->last;
        checkpoints->last = begun;
    }
    return part;
}

void checkpoints_end(struct checkpoints *checkpoints, struct trace_writer *writer,
                     struct trace_writer *part, uint64_t cost_ms)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (part == NULL) {
        checkpoints->due_ms = UINT64_MAX;
        return;
    }
    uint64_t bytes = trace_writer_bytes(part);
    int code = trace_writer_end_checkpoint(writer, part, &checkpoints->last);
    checkpoints->written_bytes += bytes;
    if (code == 0)
        trace_writer_withdraw_checkpoint(writer, &checkpoints->before);
    else
        checkpoints->last = checkpoints->before;
    plan(checkpoints, writer, now_ms, cost_ms);
}

void checkpoints_supersede(struct checkpoints *checkpoints, struct trace_writer *writer,
                           uint64_t now_ms)
{
    trace_writer_withdraw_checkpoint(writer, &checkpoints->last);
    if (checkpoints->due_ms != UINT64_MAX)
        plan(checkpoints, writer, now_ms, 0);
}

void checkpoints_close(struct checkpoints *checkpoints, struct trace_writer *writer)
{
    trace_writer_withdraw_checkpoint(writer, &checkpoints->last);
    checkpoints->due_ms = UINT64_MAX;
}
