/* SPDX-License-Identifier: Apache-2.0 */
/* Which metrics there are, and where their values are. */
#include "production/metrics/render.h"

#include <math.h>

#define NS_PER_S 1e9
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static double seconds_since_1970(int64_t ns)
{
    return ns > 0 ? (double)ns / NS_PER_S : NAN;
}

/* --- the profiler itself --- */

static void render_one(struct exposition *exposition, const struct metric *metric, double value)
{
    exposition_begin(exposition, metric);
    exposition_sample(exposition, NULL, 0, value);
}

static void render_one_unsigned(struct exposition *exposition, const struct metric *metric,
                                uint64_t value)
{
    exposition_begin(exposition, metric);
    exposition_unsigned(exposition, NULL, 0, value);
}

static void render_cost(struct exposition *exposition, const struct collector_status *status)
{
    static const struct metric cpu = {"heapprofd_cpu_seconds", "seconds", true,
                                      "CPU time of the profiler with all its processes."},
                               cpu_share = {"heapprofd_cpu_ratio", "ratio", false,
                                            "Share of one processor that the profiler uses, "
                                            "lately."},
                               cpu_budget = {"heapprofd_cpu_budget_ratio", "ratio", false,
                                             "Share of one processor that the configuration "
                                             "allows."},
                               memory = {"heapprofd_memory_bytes", "bytes", false,
                                         "Memory of the profiler with all its processes. What n "
                                         "processes share counts one part in n."},
                               memory_budget = {"heapprofd_memory_budget_bytes", "bytes", false,
                                                "Memory that the configuration allows."};
    render_one(exposition, &cpu, status->cpu_seconds);
    render_one(exposition, &cpu_share, status->cpu_share);
    render_one(exposition, &cpu_budget, status->budget.cpu_share);
    render_one_unsigned(exposition, &memory, status->memory_bytes);
    render_one_unsigned(exposition, &memory_budget, status->budget.memory_bytes);
}

static void render_collector(struct exposition *exposition, const struct collector_status *status)
{
    static const struct metric build = {"heapprofd_build_info", "", false,
                                        "The version of the profiler; always 1."},
                               started = {"heapprofd_start_time_seconds", "seconds", false,
                                          "When the collector started, since 1970."},
                               gap = {"heapprofd_restart_gap_seconds", "seconds", false,
                                      "From the last dump before this start to this start. What "
                                      "was allocated in between is in no profile."},
                               taken = {"heapprofd_dumps", "", true, "Dumps that were taken."},
                               lost = {"heapprofd_dumps_lost", "", true,
                                       "Dumps that could not be taken or read."};
    static const struct metric_label version = {"version", HEAPPROFD_VERSION};
    exposition_begin(exposition, &build);
    exposition_unsigned(exposition, &version, 1, 1);
    render_one(exposition, &started, seconds_since_1970(status->started_ns));
    render_one(exposition, &gap, status->gap_ms < 0 ? NAN : (double)status->gap_ms / 1e3);
    render_one_unsigned(exposition, &taken, status->dumps_taken);
    render_one_unsigned(exposition, &lost, status->dumps_lost);
    render_cost(exposition, status);
}

/* --- programs --- */

static double known(uint64_t value)
{
    return value == COLLECTOR_UNKNOWN ? NAN : (double)value;
}

static double processes_of(const struct program_total *total)
{
    return (double)total->processes;
}

static double measured_of(const struct program_total *total)
{
    return (double)total->measured;
}

static double unprofiled_of(const struct program_total *total)
{
    return (double)total->unprofiled;
}

static double unsampled_of(const struct program_total *total)
{
    return (double)total->unsampled;
}

static double samples_of(const struct program_total *total)
{
    return known(total->samples);
}

static double interval_of(const struct program_total *total)
{
    return known(total->interval_bytes);
}

static double unexplained_of(const struct program_total *total)
{
    return total->unexplained_bytes;
}

static double last_dump_of(const struct program_total *total)
{
    return seconds_since_1970(total->oldest_dump_ns);
}

static const struct {
    struct metric metric;
    double (*value)(const struct program_total *total);
} program_metrics[] = {
    {{"heapprofd_processes", "", false, "Processes that run now and that the configuration chose."},
     processes_of},
    {{"heapprofd_processes_measured", "", false,
      "Processes of these with a dump: the sums of live memory are over them."},
     measured_of},
    {{"heapprofd_processes_unprofiled", "", false,
      "Processes of these that cannot be profiled; heap_profile status says why."},
     unprofiled_of},
    {{"heapprofd_processes_unsampled", "", false,
      "Processes of these that allocate more than their budget allows to sample: they are counted "
      "only."},
     unsampled_of},
    {{"heapprofd_samples", "", true, "Sampled allocations."}, samples_of},
    {{"heapprofd_sampling_interval_bytes", "bytes", false,
      "Bytes between two samples, on average: the largest of the processes."},
     interval_of},
    {{"heapprofd_unexplained_bytes", "bytes", false,
      "Most memory of these processes so far that is in no heap. If it is much, their figures are "
      "partial."},
     unexplained_of},
    {{"heapprofd_last_dump_timestamp_seconds", "seconds", false,
      "When the last dump was taken, since 1970: the oldest of the processes."},
     last_dump_of},
};

static void render_programs(struct exposition *exposition, const struct program_totals *totals)
{
    for (size_t i = 0; i < LENGTH(program_metrics); i++) {
        exposition_begin(exposition, &program_metrics[i].metric);
        for (size_t j = 0; j < totals->count; j++) {
            const struct program_total *total = &totals->items[j];
            const struct metric_label labels[] = {{"program", total->program},
                                                  {"service", total->service}};
            exposition_sample(exposition, labels, LENGTH(labels), program_metrics[i].value(total));
        }
    }
}

/* --- heaps --- */

static double live_bytes_of(const struct program_heap *heap)
{
    return heap->live_bytes;
}

/* Errors of processes are independent, so their squares add up. */
static double live_low_of(const struct program_heap *heap)
{
    return heap->live_bytes - sqrt(heap->low_squares);
}

static double live_high_of(const struct program_heap *heap)
{
    return heap->live_bytes + sqrt(heap->high_squares);
}

static double live_margin_of(const struct program_heap *heap)
{
    return sqrt(fmax(heap->low_squares, heap->high_squares));
}

static double partial_of(const struct program_heap *heap)
{
    return isnan(heap->live_bytes) ? (double)NAN : (double)heap->partial;
}

static double live_count_of(const struct program_heap *heap)
{
    return heap->live_count;
}

static double allocated_bytes_of(const struct program_heap *heap)
{
    return heap->counters.allocated_bytes;
}

static double allocated_count_of(const struct program_heap *heap)
{
    return heap->counters.allocated_count;
}

static const struct {
    struct metric metric;
    double (*value)(const struct program_heap *heap);
} heap_metrics[] = {
    {{"heapprofd_live_bytes", "bytes", false,
      "Estimated bytes that were live at the last dumps of the processes that run."},
     live_bytes_of},
    {{"heapprofd_live_low_bytes", "bytes", false, "Lower limit of the live bytes, 95 %."},
     live_low_of},
    {{"heapprofd_live_high_bytes", "bytes", false, "Upper limit of the live bytes, 95 %."},
     live_high_of},
    {{"heapprofd_live_margin_bytes", "bytes", false,
      "The larger distance of the live bytes from their limits."},
     live_margin_of},
    {{"heapprofd_heaps_partial", "", false,
      "Processes whose figures of the heap leave out allocations."},
     partial_of},
    {{"heapprofd_live_allocations", "", false, "Estimated number of allocations, the same."},
     live_count_of},
    {{"heapprofd_allocated_bytes", "bytes", true,
      "Bytes that were allocated: exact where all calls were counted, else estimated."},
     allocated_bytes_of},
    {{"heapprofd_allocations", "", true, "Number of allocations that were made, like the bytes."},
     allocated_count_of},
};

static void render_heaps(struct exposition *exposition, const struct program_totals *totals)
{
    for (size_t i = 0; i < LENGTH(heap_metrics); i++) {
        exposition_begin(exposition, &heap_metrics[i].metric);
        for (size_t j = 0; j < totals->count; j++) {
            const struct program_total *total = &totals->items[j];
            for (size_t k = 0; k < total->heap_count; k++) {
                const struct metric_label labels[] = {{"program", total->program},
                                                      {"service", total->service},
                                                      {"heap", total->heaps[k].name}};
                exposition_sample(exposition, labels, LENGTH(labels),
                                  heap_metrics[i].value(&total->heaps[k]));
            }
        }
    }
}

/* --- losses --- */

/* Rates need a counter's 0 before its first loss. Losses that change no figure have no 0. */
static bool is_shown(const struct program_total *total, size_t id)
{
    return total->losses[id] > 0 ||
           (trace_losses[id].effects != 0 && total->samples != COLLECTOR_UNKNOWN);
}

/* Write the losses of some units. */
static void render_losses_of(struct exposition *exposition, const struct program_totals *totals,
                             const struct metric *metric, enum trace_loss_unit first,
                             enum trace_loss_unit last)
{
    exposition_begin(exposition, metric);
    for (size_t i = 0; i < totals->count; i++) {
        const struct program_total *total = &totals->items[i];
        for (size_t id = 0; id < TRACE_LOSS_IDS; id++) {
            const struct metric_label labels[] = {{"program", total->program},
                                                  {"service", total->service},
                                                  {"reason", trace_losses[id].name}};
            if (trace_losses[id].unit >= first && trace_losses[id].unit <= last &&
                id != TRACE_LOSS_DISCONNECTED && is_shown(total, id))
                exposition_unsigned(exposition, labels, LENGTH(labels), total->losses[id]);
        }
    }
}

static void render_losses(struct exposition *exposition, const struct program_totals *totals)
{
    static const struct metric counts = {"heapprofd_losses", "", true,
                                         "What is missing or incomplete, by reason: samples, calls "
                                         "or stacks, and profiles that ended early."},
                               bytes = {"heapprofd_lost_bytes", "bytes", true,
                                        "Bytes that are missing, by reason."},
                               blocked = {"heapprofd_blocked_seconds", "seconds", true,
                                          "Time that threads waited for the profiler."};
    render_losses_of(exposition, totals, &counts, TRACE_LOSS_FLAG, TRACE_LOSS_COUNT);
    render_losses_of(exposition, totals, &bytes, TRACE_LOSS_BYTES, TRACE_LOSS_BYTES);
    exposition_begin(exposition, &blocked);
    for (size_t i = 0; i < totals->count; i++) {
        const struct program_total *total = &totals->items[i];
        const struct metric_label labels[] = {{"program", total->program},
                                              {"service", total->service}};
        if (total->samples != COLLECTOR_UNKNOWN)
            exposition_sample(exposition, labels, LENGTH(labels),
                              (double)total->losses[TRACE_LOSS_BLOCKED_US] / 1e6);
    }
}

static void render_beyond(struct exposition *exposition, const struct program_totals *totals)
{
    static const struct metric unnamed = {
        "heapprofd_processes_unnamed", "", false,
        "Processes whose program has no series of its own, because there are too many: they are in "
        "the program " PROGRAM_TOTALS_OTHERS "."};
    render_one_unsigned(exposition, &unnamed, totals->unnamed);
}

/* --- sinks --- */

#define SINK(member) offsetof(struct sink_figures, member)

static const struct {
    struct metric metric;
    size_t offset;
} sink_metrics[] = {
    {{"heapprofd_sink_sent_messages", "", true, "Messages that the other side took."},
     SINK(sent_messages)},
    {{"heapprofd_sink_sent_bytes", "bytes", true, "Bytes of these messages."}, SINK(sent_bytes)},
    {{"heapprofd_sink_sent_periods", "", true, "Periods of heaps in these messages."},
     SINK(sent_periods)},
    {{"heapprofd_sink_spool_messages", "", false, "Messages that wait on disk."},
     SINK(spooled_messages)},
    {{"heapprofd_sink_spool_bytes", "bytes", false, "Bytes of these messages."},
     SINK(spooled_bytes)},
    {{"heapprofd_sink_dropped_messages", "", true,
      "Messages that are lost: beyond the spool's limit, or refused."},
     SINK(dropped_messages)},
    {{"heapprofd_sink_dropped_periods", "", true, "Periods of heaps in these messages."},
     SINK(dropped_periods)},
    {{"heapprofd_sink_failures", "", true, "Attempts to send that failed."}, SINK(failures)},
};

static void render_sinks(struct exposition *exposition, const struct collector_status *status)
{
    static const struct metric lag = {"heapprofd_sink_lag_seconds", "seconds", false,
                                      "Age of the oldest message that waits; 0: none waits."};
    exposition_begin(exposition, &lag);
    for (size_t i = 0; i < status->sink_count; i++) {
        const struct sink_figures *sink = &status->sinks[i];
        const struct metric_label labels[] = {{"sink", sink->name}, {"type", sink->kind}};
        exposition_sample(exposition, labels, LENGTH(labels), (double)sink->lag_ms / 1e3);
    }
    for (size_t i = 0; i < LENGTH(sink_metrics); i++) {
        exposition_begin(exposition, &sink_metrics[i].metric);
        for (size_t j = 0; j < status->sink_count; j++) {
            const struct sink_figures *sink = &status->sinks[j];
            const struct metric_label labels[] = {{"sink", sink->name}, {"type", sink->kind}};
            const char *at = (const char *)sink + sink_metrics[i].offset;
            exposition_unsigned(exposition, labels, LENGTH(labels), *(const uint64_t *)at);
        }
    }
}

void metrics_render(struct exposition *exposition, const struct collector_status *status,
                    const struct program_totals *totals)
{
    render_collector(exposition, status);
    render_programs(exposition, totals);
    render_heaps(exposition, totals);
    render_losses(exposition, totals);
    render_beyond(exposition, totals);
    render_sinks(exposition, status);
    exposition_end(exposition);
}
