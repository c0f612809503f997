/* SPDX-License-Identifier: Apache-2.0 */
/* Decides by the live bytes at the end, without those of run times, and by the peak. */
#include "profile/compare/first_view.h"

#include "profile/compare/estimates.h"

/* Run times keep less than this. */
#define POOLS_BYTES_MAX (128 << 10)
#define POOLS_COUNT_MAX 16
/* Less live memory than this part of the peak is what a program left, not what it holds. */
#define REST_PART 10

static bool is_of_run_time(const struct profile *profile, const struct folding *folding,
                           uint32_t callsite)
{
    while (callsite != PROFILE_NONE &&
           folding_of(folding, profile->callsites[callsite].frame) != NULL)
        callsite = profile->callsites[callsite].parent;
    return callsite == PROFILE_NONE;
}

double first_view_pools(const struct profile *profile, const struct folding *folding,
                        const struct profile_dump *dump)
{
    double bytes = 0, count = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        double live = rollup_live_bytes(&sample->figures);
        if (live <= 0 || !is_of_run_time(profile, folding, sample->callsite))
            continue;
        bytes += live;
        count += rollup_live_count(&sample->figures);
    }
    return bytes <= POOLS_BYTES_MAX && count <= POOLS_COUNT_MAX ? bytes : 0;
}

enum export_view first_view(const struct profile *profile, const struct folding *folding,
                            const struct profile_heap *heap, const struct profile_dump *dump)
{
    bool has_peak = !export_view_is_unknown(heap, EXPORT_MAX);
    if (export_view_is_unknown(heap, EXPORT_SPACE))
        return has_peak ? EXPORT_MAX : EXPORT_ALLOC_SPACE;
    double live = estimate_of_dump(dump, EXPORT_SPACE).bytes;
    double peak = has_peak ? estimate_of_dump(dump, EXPORT_MAX).bytes : 0;
    double pools = dump->final ? first_view_pools(profile, folding, dump) : 0;
    bool is_rest = dump->final && live - pools <= peak / REST_PART;
    return is_rest && peak > 0 ? EXPORT_MAX : EXPORT_SPACE;
}
