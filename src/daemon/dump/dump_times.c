/* SPDX-License-Identifier: Apache-2.0 */
/* Take the times of live samples in one pass, as lists by figures. */
#include "daemon/dump/dump_times.h"

#include <errno.h>
#include <stdlib.h>

#include "util/array.h"

/* Of a heap, so that the ring is not kept waiting: so many take 8 ms and 6 MB. */
#define SAMPLES_MAX (1u << 18)

static void take_time(void *context, const struct ledger_live_sample *sample)
{
    struct dump_times *times = context;
    if (times->failed || ARRAY_RESERVE(&times->items, &times->capacity, times->count, 1) < 0) {
        times->failed = true;
        return;
    }
    uint32_t *first = &times->first[sample->figures];
    times->items[times->count++] = (struct dump_time){sample->bytes, sample->time_ms, *first};
    *first = (uint32_t)times->count;
}

int dump_times_take(struct dump_times *times, struct ledger *ledger, uint64_t now_ms)
{
    size_t heaps;
    ledger_heaps(ledger, &heaps);
    *times = (struct dump_times){.slice_ms = trace_slice_ms(now_ms)};
    times->first = calloc(ledger_figures_count(ledger) + 1, sizeof(*times->first));
    times->failed = times->first == NULL;
    for (size_t i = 0; i < heaps && !times->failed; i++)
        times->parts[i] = ledger_live_visit(ledger, i, SAMPLES_MAX, take_time, times);
    return times->failed ? -ENOMEM : 0;
}

void dump_times_clear(struct dump_times *times)
{
    free(times->items);
    free(times->first);
    *times = (struct dump_times){0};
}

void dump_times_add(const struct dump_times *times, uint32_t figures, uint8_t heap,
                    struct trace_live_times *sum)
{
    for (uint32_t at = times->first[figures]; at != 0; at = times->items[at - 1].next) {
        const struct dump_time *item = &times->items[at - 1];
        if (sum->slice_ms == 0)
            *sum =
                (struct trace_live_times){.slice_ms = times->slice_ms, .oldest_ms = item->time_ms};
        trace_live_times_add(sum, item->time_ms, item->bytes / times->parts[heap], 1);
    }
}
