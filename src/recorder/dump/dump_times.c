/* SPDX-License-Identifier: Apache-2.0 */
/* Take the times of live samples in one pass, as lists by figures. */
#include "recorder/dump/dump_times.h"

#include <stdlib.h>

#include "util/array.h"
#include "util/populate.h"

/* Of all heaps, so that the ring is not kept waiting: so many take some 15 ms and 6 MB. */
#define SAMPLES_MAX (1u << 18)

static void take_time(void *context, const struct ledger_live_sample *sample)
{
    struct dump_times *times = context;
    if (times->failed || ARRAY_RESERVE(&times->items, &times->capacity, times->count, 1) < 0) {
        times->failed = true;
        return;
    }
    uint32_t *first = &times->first[sample->figures];
    times->items[times->count++] = (struct dump_time){sample->size, sample->time_ms, *first};
    *first = (uint32_t)times->count;
}

/* Make room for the samples at once, so that taking them does not wait for page faults. */
static void dump_times_reserve(struct dump_times *times, const struct ledger *ledger)
{
    size_t count = ledger_counts(ledger).live_samples;
    count = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    if (ARRAY_RESERVE(&times->items, &times->capacity, 0, count) == 0)
        populate_pages(times->items, count * sizeof(*times->items));
}

void dump_times_take(struct dump_times *times, const struct ledger *ledger, uint64_t now_ms)
{
    size_t heaps;
    ledger_heaps(ledger, &heaps);
    *times = (struct dump_times){.slice_ms = trace_slice_ms(now_ms)};
    times->first = calloc(ledger_figures_count(ledger) + 1, sizeof(*times->first));
    times->failed = times->first == NULL;
    dump_times_reserve(times, ledger);
    /* Each heap leaves as much to each of the others. malloc's is the first, and takes the rest. */
    for (size_t i = heaps; i-- > 0 && !times->failed;) {
        size_t left = times->count < SAMPLES_MAX ? SAMPLES_MAX - times->count : 0;
        times->parts[i] = ledger_live_visit(ledger, i, left / (i + 1), take_time, times);
    }
    if (times->failed)
        dump_times_clear(times);
}

void dump_times_clear(struct dump_times *times)
{
    free(times->items);
    free(times->first);
    *times = (struct dump_times){0};
}

/* So many take some 0.1 ms. */
#define ADDED_AT_ONCE 4096u

unsigned dump_times_add(const struct dump_times *times, struct ledger *ledger,
                        const struct ledger_snapshot *snapshot, uint32_t figures, uint8_t heap,
                        uint32_t *next, struct trace_live_times *sum)
{
    unsigned count = 0;
    uint32_t at = *next;
    for (; at != 0 && count < ADDED_AT_ONCE; at = times->items[at - 1].next, count++) {
        const struct dump_time *item = &times->items[at - 1];
        const struct ledger_live_sample sample = {
            .size = item->size, .time_ms = item->time_ms, .figures = figures};
        double bytes = ledger_live_worth(ledger, &snapshot->heaps[heap], &sample).bytes;
        if (sum->slice_ms == 0)
            *sum =
                (struct trace_live_times){.slice_ms = times->slice_ms, .oldest_ms = item->time_ms};
        trace_live_times_add(sum, item->time_ms, bytes / times->parts[heap], 1);
    }
    *next = at;
    return count;
}
