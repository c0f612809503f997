/* SPDX-License-Identifier: Apache-2.0 */
/* Words for heaps whose interval was widened. */
#include "tools/print/widened.h"

#include "tools/print/format.h"

struct widened_text widened_text(const struct profile_heap *heap)
{
    struct widened_text text = {""};
    char share[32] = "low";
    if (!profile_is_widened(heap))
        return text;
    if (heap->status.max_overhead_percent > 0)
        snprintf(share, sizeof(share), "below %u %%", heap->status.max_overhead_percent);
    snprintf(text.text, sizeof(text.text),
             "the interval was widened from 1 to %s B to keep the profile's cost %s: a callsite "
             "below %s may go unseen; -i 1 records every allocation",
             format_count((double)heap->interval_bytes).bytes, share,
             format_bytes(profile_floor_bytes(heap->interval_bytes)).bytes);
    return text;
}

void widened_print(FILE *out, const char *label, const struct profile_heap *heap)
{
    const struct widened_text text = widened_text(heap);
    if (text.text[0] != '\0')
        fprintf(out, "%s%s\n", label, text.text);
}
