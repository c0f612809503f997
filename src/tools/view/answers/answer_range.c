/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what happened between two dumps of a heap: bytes allocated, freed, and retained, which
 * were allocated after the first dump and are live at the second (tools/view/model/retained.h). */
#include <errno.h>
#include <math.h>

#include "tools/view/answers/answers.h"
#include "util/json_writer.h"

struct range {
    const struct profile_heap *heap;
    const struct profile_dump *from, *to;
    double retained_least, retained_most;
};

static double live_bytes(const struct trace_figures *figures)
{
    return figures->allocated_bytes - figures->freed_bytes;
}

/* Set the bounds of the retained bytes. */
static void bound_retained(struct range *range, const struct profile *profile)
{
    struct view_retained retained = {0};
    view_retained_make(&retained, profile, range->from, range->to);
    range->retained_least = live_bytes(&retained.least.dump.total);
    range->retained_most = live_bytes(&retained.most.dump.total);
    view_retained_free(&retained);
    /* The total was summed up in another order, and so rounded otherwise. */
    double allocated = range->to->total.allocated_bytes - range->from->total.allocated_bytes;
    range->retained_most = fmin(range->retained_most, fmax(allocated, 0));
    range->retained_least = fmin(range->retained_least, range->retained_most);
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
        const char *why = view_retained_why_unknown(range.heap, range.from, range.to);
        if (*why == '\0')
            bound_retained(&range, selection.at.of->profile);
        struct json_writer json = json_begin(out);
        write_range(&json, &range, why);
    }
    view_selection_clear(&selection);
    return code;
}
