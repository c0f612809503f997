/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether limits are known. */
#include "tools/view/model/limits.h"

#include <math.h>

#include "profile/partial.h"
#include "profile/unseen.h"

uint64_t view_limits_interval(const struct profile_heap *heap)
{
    bool are_known = heap->interval_bytes == 1 ? heap->status.weighed_samples == 0
                                               : !unseen_is_as_reported(heap);
    return are_known ? heap->interval_bytes : 0;
}

void view_write_calibration(struct json_writer *json, const char *name,
                            const struct profile_calibration *calibration)
{
    json_array(json, name);
    json_number(json, NULL, calibration->bytes_variance);
    json_number(json, NULL, calibration->count_variance);
    json_number(json, NULL, calibration->missed_count);
    json_number(json, NULL, calibration->samples);
    json_number(json, NULL, calibration->samples_of_counts);
    json_number(json, NULL, calibration->ratio);
    json_number(json, NULL, calibration->peak_bytes_bias);
    json_number(json, NULL, calibration->peak_count_bias);
    json_end_array(json);
}

static bool are_unknown(const struct export_dump *at)
{
    return view_limits_interval(at->heap) == 0 ||
           (at->heap->interval_bytes == 1 && !profile_dump_is_exact(at->heap, at->dump));
}

struct profile_interval view_limits(const struct profile_estimate *figure, bool counts,
                                    const struct export_dump *at)
{
    return are_unknown(at) ? (struct profile_interval){NAN, NAN}
                           : estimate_interval(figure, counts, at->heap, at->dump);
}

struct estimate_shown view_total(const struct export_dump *at, enum export_view view, bool counts)
{
    struct estimate_shown total = estimate_total(at->heap, at->dump, view, counts);
    if (are_unknown(at) && !estimate_is_counted(at->heap, at->dump, view))
        total.interval = (struct profile_interval){NAN, NAN};
    return total;
}
