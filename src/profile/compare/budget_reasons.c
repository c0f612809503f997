/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/compare/budget_reasons.h"

#include "profile/agreement.h"
#include "profile/partial.h"

const char budget_unknown_reason[] = "the figure is not in the file";
const char budget_lost_frees[] = "frees were lost: live memory may be less";

const char *budget_why_totals_partial(const struct profile_heap *heap,
                                      const struct profile_dump *dump)
{
    const char *reason = profile_totals_why_partial(heap, dump);
    if (profile_disagrees(heap, dump))
        return profile_disagreement_words;
    if (heap->status.unseen_allocator != NULL)
        return "the process has another allocator, which was not profiled: its memory could exceed "
               "the budget";
    if (reason == NULL && heap->unfinished && dump == &heap->dumps[heap->dump_count - 1])
        return "the profiler was killed, or still runs: allocations after the last dump could "
               "exceed the budget";
    return reason;
}

const char *budget_why_partial(const struct profile_heap *heap, const struct profile_dump *dump)
{
    const char *reason = budget_why_totals_partial(heap, dump);
    if (reason == NULL && profile_dump_is_partial(heap, dump))
        return "samples are missing: the lost ones could exceed the budget";
    return reason;
}
