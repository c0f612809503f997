/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers what happened between two dumps of a heap: bytes allocated, freed, and retained, which
 * were allocated after the first dump and are live at the second.
 *
 * A trace has no ages of allocations, only sums of each callsite. So the retained bytes are known
 * between two bounds. They are at least the growth of the callsites with more live allocations (as
 * in _android_heap_profile_intervals), and at a callsite at most what it allocated meanwhile or
 * what it holds.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profile/compare/estimates.h"
#include "tools/view/answers/answers.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

struct range {
    const struct profile_heap *heap;
    const struct profile_dump *from, *to;
    double retained_least, retained_most;
};

static double live_bytes(const struct trace_figures *figures)
{
    return figures->allocated_bytes - figures->freed_bytes;
}

static double live_count(const struct trace_figures *figures)
{
    return figures->allocated_count - figures->freed_count;
}

/* Sums of counts have errors of rounding. A callsite has grown by at least one allocation or not.
 */
#define HALF_A_COUNT 0.5

static void add_callsite(struct range *range, const struct trace_figures *now,
                         const struct trace_figures *before)
{
    double allocated = now->allocated_bytes - before->allocated_bytes;
    if (live_count(now) - live_count(before) > HALF_A_COUNT)
        range->retained_least += live_bytes(now) - live_bytes(before);
    range->retained_most += fmax(fmin(live_bytes(now), allocated), 0);
}

/* Set the bounds of the retained bytes. */
static void bound_retained(struct range *range, const struct profile *profile)
{
    static const struct trace_figures nothing;
    const struct profile_sample **before = xcalloc(profile->callsite_count + 1, sizeof(*before));
    for (size_t i = 0; i < range->from->sample_count; i++)
        before[range->from->samples[i]->callsite] = range->from->samples[i];
    for (size_t i = 0; i < range->to->sample_count; i++) {
        const struct profile_sample *sample = range->to->samples[i];
        const struct profile_sample *earlier = before[sample->callsite];
        add_callsite(range, &sample->figures, earlier == NULL ? &nothing : &earlier->figures);
    }
    free(before);
    /* The total was summed up in another order, and so rounded otherwise. */
    double allocated = range->to->total.allocated_bytes - range->from->total.allocated_bytes;
    range->retained_least = fmin(fmax(range->retained_least, 0), fmax(allocated, 0));
    range->retained_most =
        fmin(fmax(range->retained_most, range->retained_least), fmax(allocated, 0));
}

static void write_range(struct json_writer *json, const struct range *range, const char *why)
{
    const struct trace_figures *now = &range->to->total, *before = &range->from->total;
    bool is_known = *why == '\0';
    json_object(json, NULL);
    json_string(json, "why", why);
    json_number(json, "allocated", is_known ? now->allocated_bytes - before->allocated_bytes : NAN);
    json_number(json, "freed", is_known ? now->freed_bytes - before->freed_bytes : NAN);
    json_number(json, "change", is_known ? live_bytes(now) - live_bytes(before) : NAN);
    json_number(json, "retained_least", is_known ? range->retained_least : NAN);
    json_number(json, "retained_most", is_known ? range->retained_most : NAN);
    json_end_object(json);
}

/* Return why the file cannot tell what was retained; "": it can. */
static const char *why_unknown(const struct range *range)
{
    if (range->heap->unknown &
        (PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES))
        return "The file does not have both what was allocated and what is live.";
    if (range->heap->status.dump_at_max)
        return "The dumps are of the peak, not of their moments.";
    if (range->from->incomplete || range->to->incomplete)
        return "One of the dumps is incomplete.";
    return "";
}

int answer_range(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    const struct export_dump *to = &selection.at.dump, *from = &selection.base.dump;
    if (code == 0 && (from->dump == NULL || to->dump == NULL || from->heap != to->heap))
        code = error_set(error, -EINVAL, "a range has two dumps of one heap: heap, dump and base");
    if (code == 0) {
        bool is_in_order = from->dump->boottime_ns <= to->dump->boottime_ns;
        struct range range = {.heap = to->heap,
                              .from = is_in_order ? from->dump : to->dump,
                              .to = is_in_order ? to->dump : from->dump};
        const char *why = why_unknown(&range);
        if (*why == '\0')
            bound_retained(&range, selection.at.of->profile);
        struct json_writer json = json_begin(out);
        write_range(&json, &range, why);
    }
    view_selection_clear(&selection);
    return code;
}
