/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the slices of live memory, and adds up those of several callsites or dumps. */
#include "profile/live_times.h"

#include <string.h>

#include "profile/rollup.h"

static void find_used(const struct trace_live_times *times, uint32_t *first, uint32_t *end)
{
    *first = 0;
    *end = TRACE_TIME_SLICES;
    while (*end > 0 && times->samples[*end - 1] == 0)
        --*end;
    while (*first < *end && times->samples[*first] == 0)
        ++*first;
}

size_t profile_times_bytes(const struct trace_live_times *times)
{
    uint32_t first, end;
    find_used(times, &first, &end);
    return sizeof(struct profile_times) + (end - first) * sizeof(struct profile_time_slice);
}

void profile_times_keep(const struct trace_live_times *times, struct profile_times *kept)
{
    uint32_t first, end;
    find_used(times, &first, &end);
    *kept = (struct profile_times){times->slice_ms, times->oldest_ms, first, end - first};
    for (uint32_t i = first; i < end; i++)
        kept->slices[i - first] =
            (struct profile_time_slice){(float)times->bytes[i], times->samples[i]};
}

bool profile_times_are_same(const struct profile_times *one, const struct profile_times *other)
{
    if (one == NULL || other == NULL)
        return one == other;
    return one->slice_ms == other->slice_ms && one->oldest_ms == other->oldest_ms &&
           one->first == other->first && one->count == other->count &&
           memcmp(one->slices, other->slices, one->count * sizeof(*one->slices)) == 0;
}

/* Make slices as wide as those of the other times. */
static void widen(struct trace_live_times *times, uint64_t slice_ms)
{
    struct trace_live_times wide = {.slice_ms = slice_ms, .oldest_ms = times->oldest_ms};
    for (uint32_t i = 0; i < TRACE_TIME_SLICES; i++)
        if (times->samples[i] > 0)
            trace_live_times_add(&wide, i * times->slice_ms, times->bytes[i], times->samples[i]);
    wide.oldest_ms = times->oldest_ms;
    *times = wide;
}

static void add_times(struct trace_live_times *sum, const struct profile_times *more)
{
    if (sum->slice_ms == 0)
        *sum = (struct trace_live_times){.slice_ms = more->slice_ms, .oldest_ms = more->oldest_ms};
    if (sum->slice_ms < more->slice_ms)
        widen(sum, more->slice_ms);
    uint64_t oldest_ms = sum->oldest_ms < more->oldest_ms ? sum->oldest_ms : more->oldest_ms;
    for (uint32_t i = 0; i < more->count; i++)
        if (more->slices[i].samples > 0)
            trace_live_times_add(sum, (more->first + i) * more->slice_ms,
                                 (double)more->slices[i].bytes, more->slices[i].samples);
    /* Times of slices are not those of samples. */
    sum->oldest_ms = oldest_ms;
}

void live_times_sum_add(struct live_times_sum *sum, const struct profile_sample *sample)
{
    if (sample->times != NULL)
        add_times(&sum->times, sample->times);
    else
        sum->unknown |= rollup_live_bytes(&sample->figures) >= 0.5;
}
