/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds what was retained of each part of each callsite. */
#include "tools/view/model/retained.h"

#include <math.h>
#include <stdlib.h>

#include "profile/compare/diff.h"
#include "profile/compare/estimates.h"
#include "tools/view/model/leaves.h"
#include "util/xmalloc.h"

/* --- the bounds of a part --- */

/* Sums of counts have errors of rounding. A part has grown by at least one allocation or not. */
#define HALF_A_COUNT 0.5

static struct trace_figures figures_of(const struct profile_estimate *live)
{
    return (struct trace_figures){
        .allocated_bytes = live->bytes,
        .allocated_count = live->count,
        .allocated_bytes_variance = fmax(live->bytes_variance, 0),
        .allocated_count_variance = fmax(live->count_variance, 0),
        .samples = (uint64_t)fmax(live->samples, 0),
    };
}

/* Return what a part holds, or what it has allocated meanwhile if that is less. */
static struct trace_figures most_of(const struct rollup_values values[2])
{
    struct profile_estimate live = estimate_of_view(&values[1], EXPORT_SPACE),
                            ever = estimate_of_view(&values[1], EXPORT_ALLOC_SPACE);
    const struct profile_estimate before = estimate_of_view(&values[0], EXPORT_ALLOC_SPACE);
    ever.bytes -= before.bytes;
    ever.count -= before.count;
    ever.bytes_variance -= before.bytes_variance;
    ever.count_variance -= before.count_variance;
    ever.samples -= before.samples;
    const struct profile_estimate *least = ever.bytes < live.bytes ? &ever : &live;
    return least->bytes > 0 && least->count > 0 ? figures_of(least) : (struct trace_figures){0};
}

/* Return by how much a part has grown. */
static struct trace_figures least_of(const struct rollup_values values[2])
{
    const struct change_parts parts = diff_parts_of(values, DIFF_LIVE, true);
    struct profile_estimate growth = {
        .bytes = parts.gained.bytes - parts.lost.bytes,
        .count = parts.gained.count - parts.lost.count,
        .bytes_variance = parts.gained.bytes_variance + parts.lost.bytes_variance,
        .count_variance = parts.gained.count_variance + parts.lost.count_variance,
    };
    /* Of a difference, no sample is certain, unless nothing was lost or nothing is estimated. */
    if (!(parts.lost.bytes > 0) || !(growth.bytes_variance > 0))
        growth.samples = fmax(parts.gained.samples - parts.lost.samples, 1);
    bool has_grown = growth.count > HALF_A_COUNT && growth.bytes > 0;
    return has_grown ? figures_of(&growth) : (struct trace_figures){0};
}

/* --- the dumps --- */

static void begin(struct view_bound *bound, const struct profile_dump *to)
{
    bound->dump = *to;
    bound->dump.sample_count = bound->dump.part_count = 0;
    bound->dump.total = (struct trace_figures){0};
    bound->dump.left_out = (struct profile_left_out){0};
    bound->dump.peak_bytes_bias = bound->dump.peak_count_bias = 0;
    bound->dump.samples = xcalloc(to->sample_count + 1, sizeof(*bound->dump.samples));
    bound->samples = xcalloc(to->sample_count + 1, sizeof(*bound->samples));
    /* A sample without parts gets one. */
    bound->parts = xcalloc(to->part_count + to->sample_count + 1, sizeof(*bound->parts));
}

/* Add a part's bound to the sample that is being made. */
static void add_part(struct view_bound *bound, const struct profile_sample *of,
                     const struct profile_part *part, const struct trace_figures *figures)
{
    struct profile_dump *dump = &bound->dump;
    struct profile_sample *sample = &bound->samples[dump->sample_count];
    if (!(figures->allocated_count > 0))
        return;
    if (sample->part_count == 0)
        *sample = (struct profile_sample){.callsite = of->callsite,
                                          .parts = &bound->parts[dump->part_count],
                                          .tagged = of->tagged};
    bound->parts[dump->part_count++] = (struct profile_part){
        .tid = part->tid, .type = part->type, .context = part->context, .figures = *figures};
    sample->part_count++;
    trace_figures_add(&sample->figures, figures);
    trace_figures_add(&dump->total, figures);
}

static void end_sample(struct view_bound *bound)
{
    struct profile_sample *sample = &bound->samples[bound->dump.sample_count];
    if (sample->part_count > 0)
        bound->dump.samples[bound->dump.sample_count++] = sample;
}

static void add_sample(struct view_retained *retained, const struct profile_sample *before,
                       const struct profile_sample *now)
{
    static const struct profile_part whole = {.type = "", .context = ""};
    bool has_parts = now->part_count > 0 && (before == NULL || before->part_count > 0);
    for (uint32_t i = 0; i < (has_parts ? now->part_count : 1); i++) {
        const struct profile_part *part = has_parts ? &now->parts[i] : &whole,
                                  *earlier = has_parts ? view_part_like(before, part) : NULL;
        struct rollup_values values[2] = {{.figures = {0}}, rollup_values_of(now)};
        if (has_parts)
            values[1] = (struct rollup_values){part->figures, part->peak};
        else if (before != NULL)
            values[0] = rollup_values_of(before);
        if (earlier != NULL)
            values[0] = (struct rollup_values){earlier->figures, earlier->peak};
        const struct trace_figures least = least_of(values), most = most_of(values);
        if (!(most.allocated_count > 0))
            continue;
        add_part(&retained->most, now, part, &most);
        add_part(&retained->least, now, part,
                 least.allocated_bytes <= most.allocated_bytes ? &least : &most);
    }
    end_sample(&retained->least);
    end_sample(&retained->most);
}

const char *view_retained_why_unknown(const struct profile_heap *heap,
                                      const struct profile_dump *from,
                                      const struct profile_dump *to)
{
    if (heap->unknown & (PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES))
        return "The file does not have both what was allocated and what is live.";
    if (heap->status.dump_at_max)
        return "The dumps are of the peak, not of their moments.";
    if (from->incomplete || to->incomplete)
        return "One of the dumps is incomplete.";
    return "";
}

void view_retained_make(struct view_retained *retained, const struct profile *profile,
                        const struct profile_dump *from, const struct profile_dump *to)
{
    begin(&retained->least, to);
    begin(&retained->most, to);
    const struct profile_sample **before = xcalloc(profile->callsite_count + 1, sizeof(*before));
    for (size_t i = 0; i < from->sample_count; i++)
        before[from->samples[i]->callsite] = from->samples[i];
    for (size_t i = 0; i < to->sample_count; i++)
        if (before[to->samples[i]->callsite] != to->samples[i])
            add_sample(retained, before[to->samples[i]->callsite], to->samples[i]);
    free(before);
}

static void free_bound(struct view_bound *bound)
{
    free(bound->dump.samples);
    free(bound->samples);
    free(bound->parts);
}

void view_retained_free(struct view_retained *retained)
{
    free_bound(&retained->least);
    free_bound(&retained->most);
    *retained = (struct view_retained){0};
}
