/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the views, figures and totals that the text and JSON reports share. */
#include "cli/report/report.h"

#include <math.h>
#include <string.h>

#include "cli/options/profile_options.h"
#include "export/view.h"
#include "profile/unseen.h"

const char *const report_view_names[REPORT_VIEWS] = {
    [REPORT_SPACE] = "space",
    [REPORT_OBJECTS] = "objects",
    [REPORT_ALLOC_SPACE] = "alloc_space",
    [REPORT_ALLOC_OBJECTS] = "alloc_objects",
    [REPORT_MAX] = "max",
};

const struct profile_dump *report_dump_of(const struct profile *profile,
                                          const struct profile_heap *heap,
                                          const struct report_options *options)
{
    return dump_choice_of(&options->choice, profile, heap);
}

struct report_figure report_figure_of(const struct rollup_values *values, enum report_view view)
{
    const struct trace_figures *figures = &values->figures;
    switch (view) {
    case REPORT_ALLOC_SPACE:
    case REPORT_ALLOC_OBJECTS:
        return (struct report_figure){figures->allocated_bytes, figures->allocated_count,
                                      figures->allocated_bytes_variance,
                                      figures->allocated_count_variance, (double)figures->samples};
    case REPORT_MAX:
        return (struct report_figure){values->peak.bytes, values->peak.count,
                                      values->peak.bytes_variance, values->peak.count_variance,
                                      values->peak.samples};
    default:
        return (struct report_figure){rollup_live_bytes(figures), rollup_live_count(figures),
                                      rollup_live_bytes_variance(figures),
                                      rollup_live_count_variance(figures),
                                      (double)figures->samples - (double)figures->freed_samples};
    }
}

struct profile_interval report_interval_of(const struct report_figure *figure, bool counts,
                                           const struct profile_heap *heap,
                                           const struct profile_dump *dump)
{
    struct profile_estimate estimate = {figure->bytes, figure->count, figure->bytes_variance,
                                        figure->count_variance, figure->samples};
    if (heap->interval_bytes == 0)
        return (struct profile_interval){NAN, NAN};
    struct profile_interval interval =
        counts ? profile_interval_of_count(&estimate, heap->interval_bytes)
               : profile_interval_of_bytes(&estimate);
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

struct profile_interval report_total_interval_of(const struct report_figure *figure, bool counts,
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

_Static_assert((int)REPORT_VIEWS == (int)EXPORT_VIEWS && (int)REPORT_MAX == (int)EXPORT_MAX,
               "the views are the same");

bool report_is_unknown(const struct profile_heap *heap, enum report_view view)
{
    return export_view_is_unknown(heap, (enum export_view)view);
}

double report_rank(const struct report_figure *figure, enum report_view view)
{
    return view == REPORT_OBJECTS || view == REPORT_ALLOC_OBJECTS ? figure->count : figure->bytes;
}

struct report_figure report_total_of(const struct profile_dump *dump, enum report_view view)
{
    struct rollup_values total = rollup_total_of(dump);
    return report_figure_of(&total, view);
}

double report_peak_bytes(const struct profile_heap *heap, const struct profile_dump *dump)
{
    /* The status is as of the last dump; earlier dumps precede that peak. */
    return dump == &heap->dumps[heap->dump_count - 1] ? heap->status.peak_live_bytes
                                                      : report_total_of(dump, REPORT_MAX).bytes;
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
