/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses between a margin and a word. */
#include "tools/print/margin.h"

#include "profile/partial.h"

/* Return the margin as a word ("exact") if the file or the interval determines it; "" if the limits
 * do. */
static struct formatted margin_of_heap(const struct profile_heap *heap,
                                       const struct profile_dump *dump)
{
    struct formatted text = {""};
    const struct trace_heap_dump *status = &heap->status;
    bool all_weighed = status->weighed_samples == status->heap_samples;
    /* The error of samples that the program drew itself is unknown. */
    if (status->weighed_samples > 0 && !profile_dump_is_partial(heap, dump) &&
        (all_weighed || heap->interval_bytes == 1))
        snprintf(text.bytes, sizeof(text.bytes), "as reported");
    else if (heap->interval_bytes == 1)
        snprintf(text.bytes, sizeof(text.bytes),
                 profile_dump_is_exact(heap, dump) ? "exact" : "partial");
    else if (heap->interval_bytes == 0)
        snprintf(text.bytes, sizeof(text.bytes), "± unknown");
    return text;
}

struct formatted margin_of_figure(const struct profile_estimate *figure, bool counts,
                                  const struct profile_heap *heap, const struct profile_dump *dump)
{
    struct formatted text = margin_of_heap(heap, dump);
    if (text.bytes[0] != '\0')
        return text;
    struct profile_interval interval = estimate_interval(figure, counts, heap, dump);
    return format_margin(counts ? figure->count : figure->bytes, interval.low, interval.high,
                         counts);
}

struct formatted margin_of_total(const struct estimate_shown *total, enum export_view view,
                                 bool counts, const struct profile_heap *heap,
                                 const struct profile_dump *dump)
{
    struct formatted text = margin_of_heap(heap, dump);
    if (estimate_is_counted(heap, dump, view))
        snprintf(text.bytes, sizeof(text.bytes), "%s",
                 profile_totals_why_partial(heap, dump) == NULL ? "exact" : "partial");
    if (text.bytes[0] != '\0')
        return text;
    return format_margin(total->value, total->interval.low, total->interval.high, counts);
}
