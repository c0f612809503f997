/*
 * See query_trace.h: the rows of `stats`, by the names and severities that Perfetto's trace
 * processor has for heap profiles.
 */
#include <errno.h>
#include <stdlib.h>

#include "query/query_trace.h"

static void add_stat(struct query_trace *trace, const char *name, const char *severity,
                     int64_t value)
{
    trace->stats[trace->stat_count++] =
        (struct query_stat){.name = name, .severity = severity, .value = value};
}

/* One row a process that has it: the sum over its heaps. */
static void add_indexed(struct query_trace *trace, const char *name, const char *severity,
                        int64_t (*value)(const struct profile_heap *))
{
    const struct profile *profile = trace->profile;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        int64_t index = profile->processes[heap->process].pid, amount = value(heap);
        size_t at = trace->stat_count;
        if (amount == 0)
            continue;
        while (at > 0 && trace->stats[at - 1].name == name && trace->stats[at - 1].index != index)
            at--;
        if (at > 0 && trace->stats[at - 1].name == name) {
            trace->stats[at - 1].value += amount;
            continue;
        }
        trace->stats[trace->stat_count++] = (struct query_stat){
            .name = name, .severity = severity, .indexed = true, .index = index, .value = amount};
    }
}

#define FLAG(field)                                                                                \
    static int64_t stat_##field(const struct profile_heap *heap)                                   \
    {                                                                                              \
        return (int64_t)heap->status.field;                                                        \
    }
FLAG(buffer_corrupted)
FLAG(hit_guardrail)
FLAG(buffer_overran)
FLAG(client_error)
FLAG(disconnected)
FLAG(rejected_concurrent)
FLAG(unwinding_time_us)
FLAG(heap_samples)

static int64_t stat_interval_adjusted(const struct profile_heap *heap)
{
    return heap->status.first_interval_bytes == 0
               ? 0
               : (int64_t)(heap->status.interval_bytes - heap->status.first_interval_bytes);
}

int query_trace_make_stats(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    trace->stats = calloc(10 * profile->heap_count + 8, sizeof(*trace->stats));
    if (trace->stats == NULL)
        return -ENOMEM;
    add_indexed(trace, "heapprofd_buffer_corrupted", "error", stat_buffer_corrupted);
    add_indexed(trace, "heapprofd_hit_guardrail", "error", stat_hit_guardrail);
    add_indexed(trace, "heapprofd_buffer_overran", "data_loss", stat_buffer_overran);
    add_indexed(trace, "heapprofd_client_error", "error", stat_client_error);
    add_indexed(trace, "heapprofd_client_disconnected", "info", stat_disconnected);
    add_stat(trace, "heapprofd_malformed_packet", "error", (int64_t)profile->damaged_packets);
    add_stat(trace, "heapprofd_missing_packet", "error", (int64_t)profile->missing_packets);
    add_indexed(trace, "heapprofd_rejected_concurrent", "error", stat_rejected_concurrent);
    add_stat(trace, "heapprofd_non_finalized_profile", "error", (int64_t)profile->unfinished_dumps);
    add_indexed(trace, "heapprofd_sampling_interval_adjusted", "info", stat_interval_adjusted);
    add_indexed(trace, "heapprofd_unwind_time_us", "info", stat_unwinding_time_us);
    add_indexed(trace, "heapprofd_unwind_samples", "info", stat_heap_samples);
    return 0;
}
