/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the views, figures and totals that the text and JSON reports share. */
#include "cli/report/report.h"

#include <math.h>

#include "cli/options/profile_options.h"
#include "export/view.h"
#include "profile/unseen.h"

const struct profile_dump *report_dump_of(const struct profile *profile,
                                          const struct profile_heap *heap,
                                          const struct report_options *options)
{
    return dump_choice_of(&options->choice, profile, heap);
}

struct profile_estimate report_figure_of(const struct rollup_values *values, enum export_view view)
{
    return diff_estimate_of(values, diff_figure_of(view));
}

struct profile_interval report_interval_of(const struct profile_estimate *figure, bool counts,
                                           const struct profile_heap *heap,
                                           const struct profile_dump *dump)
{
    if (heap->interval_bytes == 0)
        return (struct profile_interval){NAN, NAN};
    struct profile_interval interval = counts
                                           ? profile_interval_of_count(figure, heap->interval_bytes)
                                           : profile_interval_of_bytes(figure);
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

struct profile_interval report_total_interval_of(const struct profile_estimate *figure, bool counts,
                                                 const struct profile_heap *heap,
                                                 const struct profile_dump *dump)
{
    struct profile_interval interval = report_interval_of(figure, counts, heap, dump);
    if (heap->interval_bytes == 0)
        return interval;
    interval = unseen_raise(interval, counts ? figure->count : figure->bytes,
                            unseen_of(heap, dump, counts));
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

double report_rank(const struct profile_estimate *figure, enum export_view view)
{
    return export_view_counts_calls(view) ? figure->count : figure->bytes;
}

struct profile_estimate report_total_of(const struct profile_dump *dump, enum export_view view)
{
    struct rollup_values total = rollup_total_of(dump);
    return report_figure_of(&total, view);
}

double report_peak_bytes(const struct profile_heap *heap, const struct profile_dump *dump)
{
    /* The status is as of the last dump; earlier dumps precede that peak. */
    return dump == &heap->dumps[heap->dump_count - 1] ? heap->status.peak_live_bytes
                                                      : report_total_of(dump, EXPORT_MAX).bytes;
}

uint64_t report_peak_rss(const struct profile_process *process)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < process->timeline_count; i++)
        if (process->timeline[i].rss_bytes > peak)
            peak = process->timeline[i].rss_bytes;
    return peak;
}

int32_t report_pid_of_stream(const struct profile *profile, const struct profile_stream *stream)
{
    return stream->process != PROFILE_NONE ? profile->processes[stream->process].pid : 0;
}

int report_check_size(const struct profile *profile, const struct report_options *options,
                      bool whole_stacks, struct error *error)
{
    struct export_callers callers = {0};
    uint64_t frames = 0;
    int code = 0;
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_dump *dump = report_dump_of(profile, &profile->heaps[i], options);
        if (dump != NULL)
            code = whole_stacks ? export_count_frames(profile, dump, &frames, error)
                                : export_callers_add(&callers, profile, dump, error);
    }
    export_callers_clear(&callers);
    return code;
}
