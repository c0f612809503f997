/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a dump is partial: by the table of losses, and by the state of the dump. */
#include "profile/partial.h"

#include "profile/agreement.h"

static const struct profile_partial_reason missing_samples = {
    "incomplete", "samples of this dump are missing from the trace", true};
static const struct profile_partial_reason other_allocator = {
    "unseen_allocator", "the process has another allocator, which was not profiled", true};
static const struct profile_partial_reason unexplained = {
    "unexplained_memory",
    "memory of the process is in no heap: the program mapped it, or an allocator that the profiler "
    "does not know",
    true};

bool profile_is_unexplained(const struct profile_dump *dump)
{
    return memory_unexplained_is_much(&dump->unexplained);
}

const char profile_disagreement_words[] =
    "the exact totals and the samples disagree by more than chance explains";
static const struct profile_partial_reason disagreement = {"disagreement",
                                                           profile_disagreement_words, true};

size_t profile_partial_reasons(const struct profile_heap *heap, const struct profile_dump *dump,
                               struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX])
{
    const struct trace_heap_dump *status = &heap->status;
    size_t count = 0;
    if (dump->incomplete)
        reasons[count++] = missing_samples;
    if (status->unseen_allocator != NULL)
        reasons[count++] = other_allocator;
    if (profile_is_unexplained(dump))
        reasons[count++] = unexplained;
    for (enum trace_loss_id id = 0;
         (id = trace_loss_find(status, id, TRACE_LOSES_SAMPLES)) < TRACE_LOSS_IDS; id++)
        reasons[count++] =
            (struct profile_partial_reason){trace_losses[id].name, trace_losses[id].words, false};
    if (profile_disagrees(heap, dump))
        reasons[count++] = disagreement;
    return count;
}

bool profile_dump_is_partial(const struct profile_heap *heap, const struct profile_dump *dump)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    return profile_partial_reasons(heap, dump, reasons) > 0;
}

bool profile_has_totals(const struct profile_heap *heap, const struct profile_dump *dump)
{
    if (heap->unseen)
        return false;
    /* Older traces have a zero where the totals are unknown. */
    return dump->exact_calls > 0 || (heap->status.has_exact_calls && dump->total.samples == 0);
}

const char *profile_totals_why_partial(const struct profile_heap *heap,
                                       const struct profile_dump *dump)
{
    const struct trace_heap_dump *status = &heap->status;
    if (status->unseen_allocator != NULL)
        return other_allocator.words;
    if (profile_is_unexplained(dump))
        return unexplained.words;
    enum trace_loss_id id = trace_loss_find(status, 0, TRACE_LOSES_TOTALS);
    return id < TRACE_LOSS_IDS ? trace_losses[id].words : NULL;
}

bool profile_lacks_frees(const struct profile_heap *heap)
{
    return trace_loss_find(&heap->status, 0, TRACE_LOSES_FREES) < TRACE_LOSS_IDS;
}

bool profile_dump_is_exact(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return heap->interval_bytes == 1 && heap->status.weighed_samples == 0 &&
           !profile_lacks_frees(heap) && !profile_dump_is_partial(heap, dump);
}
