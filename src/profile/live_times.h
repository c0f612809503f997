/* SPDX-License-Identifier: Apache-2.0 */
/* When the live memory of callsites was allocated, as profiles keep it, and sums of it. */
#ifndef HEAPPROFD_PROFILE_LIVE_TIMES_H
#define HEAPPROFD_PROFILE_LIVE_TIMES_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"
#include "trace/live_times.h"

/* The slices from `first` on; those before and after them are empty. */
struct profile_times {
    uint64_t slice_ms, oldest_ms;
    uint32_t first, count;
    struct profile_time_slice {
        float bytes;
        uint32_t samples;
    } slices[];
};

size_t profile_times_bytes(const struct trace_live_times *times);
/* Keep `times` in memory of profile_times_bytes(). */
void profile_times_keep(const struct trace_live_times *times, struct profile_times *kept);
bool profile_times_are_same(const struct profile_times *one, const struct profile_times *other);

/* A sum. Begin with zeros. */
struct live_times_sum {
    struct trace_live_times times;
    bool unknown; /* of a sample with live memory they are */
};

void live_times_sum_add(struct live_times_sum *sum, const struct profile_sample *sample);

#endif
