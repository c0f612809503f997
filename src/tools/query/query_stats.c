/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of `stats` (query_trace.h): names, severities and order are those of Perfetto's trace
 * processor for heap profiles. Like Perfetto's, they add up the values of all packets. Our own rows
 * follow: losses, by the table of losses, figures that disagree, memory in no heap, and damaged
 * packets.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/partial.h"
#include "tools/query/query_trace.h"
#include "util/id_map.h"
#include "util/xmalloc.h"

/* Add a row for the whole trace. */
static void add_single(struct query_trace *trace, const char *name, const char *severity,
                       uint64_t value)
{
    trace->stats[trace->stat_count++] =
        (struct query_stat){.name = name, .severity = severity, .value = (int64_t)value};
}

/* How the values of a process's heaps are combined. */
enum combining { ADDED, LAST, GREATEST };

struct process_stat {
    const char *name, *severity; /* name NULL: the loss's */
    enum combining combining;
    bool with_zeros; /* a process with a heap has a row even if its value is 0 */
    /* Set *value. Return false if the heap does not have the value. NULL: the loss's amount. */
    bool (*value)(const struct profile_heap *heap, int64_t *value);
    enum trace_loss_id loss;
};

static bool value_of(const struct process_stat *stat, const struct profile_heap *heap,
                     int64_t *value)
{
    if (stat->value != NULL)
        return stat->value(heap, value);
    *value = (int64_t)trace_loss_amount(&heap->status, stat->loss);
    return true;
}

static int64_t combine(enum combining combining, int64_t sum, int64_t value)
{
    switch (combining) {
    case ADDED:
        return sum + value;
    case GREATEST:
        return value > sum ? value : sum;
    default:
        return value;
    }
}

static int compare_indexes(const void *left, const void *right)
{
    const struct query_stat *one = left, *other = right;
    return (one->index > other->index) - (one->index < other->index);
}

/* Add a row for each pid that has the value, in the order of pids. */
static void add_by_process(struct query_trace *trace, const struct process_stat *stat)
{
    const struct profile *profile = trace->profile;
    struct id_map rows = {0};
    size_t first = trace->stat_count;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        int32_t pid = profile->processes[heap->process].pid;
        int64_t value;
        if (!value_of(stat, heap, &value) || (value == 0 && !stat->with_zeros))
            continue;
        uint32_t row = id_map_find(&rows, (uint32_t)pid);
        if (row == ID_MAP_NONE) {
            row = (uint32_t)trace->stat_count++;
            trace->stats[row] = (struct query_stat){
                .name = stat->name != NULL ? stat->name : trace_losses[stat->loss].stat,
                .severity = stat->severity,
                .indexed = true,
                .index = pid};
            xmalloc_code(id_map_set(&rows, (uint32_t)pid, row));
        }
        trace->stats[row].value = combine(stat->combining, trace->stats[row].value, value);
    }
    id_map_free(&rows);
    qsort(trace->stats + first, trace->stat_count - first, sizeof(*trace->stats), compare_indexes);
}

#define OF_SUMS(name, member)                                                                      \
    static bool stat_##name(const struct profile_heap *heap, int64_t *value)                       \
    {                                                                                              \
        *value = (int64_t)heap->packet_sums.member;                                                \
        return true;                                                                               \
    }
OF_SUMS(corrupted, corrupted)
OF_SUMS(guardrail, hit_guardrail)
OF_SUMS(overran, overran)
OF_SUMS(disconnected, disconnected)
OF_SUMS(rejected, rejected)
OF_SUMS(unwinding_time, unwinding_time_us)
OF_SUMS(samples, samples)
OF_SUMS(blocked, blocked_us)

static bool stat_client_error(const struct profile_heap *heap, int64_t *value)
{
    *value = (int64_t)heap->status.client_error;
    return true;
}

static bool stat_interval_adjusted(const struct profile_heap *heap, int64_t *value)
{
    *value = (int64_t)(heap->status.interval_bytes - heap->status.first_interval_bytes);
    return heap->status.first_interval_bytes != 0;
}

static bool stat_last_dump(const struct profile_heap *heap, int64_t *value)
{
    *value = (int64_t)heap->packet_boottime_ns;
    return heap->dump_count > 0;
}

/* Count dumps whose samples and exact totals differ by more than chance explains. */
static bool stat_disagreements(const struct profile_heap *heap, int64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < heap->dump_count; i++)
        *value += profile_disagrees(heap, &heap->dumps[i]);
    return true;
}

/* Bytes that were in no heap, if they make the figures partial. */
static bool stat_unexplained(const struct profile_heap *heap, int64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < heap->dump_count; i++)
        if (profile_is_unexplained(&heap->dumps[i]))
            *value = (int64_t)heap->dumps[i].unexplained.bytes;
    return true;
}

#define LOSS(loss, severity, combining, with_zeros, value)                                         \
    {                                                                                              \
        NULL, severity, combining, with_zeros, value, loss                                         \
    }
#define OTHER(name, severity, combining, with_zeros, value)                                        \
    {                                                                                              \
        name, severity, combining, with_zeros, value, TRACE_LOSS_IDS                               \
    }

static const struct process_stat before_malformed[] = {
    LOSS(TRACE_LOSS_BUFFER_CORRUPTED, "error", ADDED, false, stat_corrupted),
    LOSS(TRACE_LOSS_HIT_GUARDRAIL, "error", ADDED, false, stat_guardrail),
    LOSS(TRACE_LOSS_BUFFER_OVERRAN, "data_loss", ADDED, false, stat_overran),
    LOSS(TRACE_LOSS_CLIENT_OTHER, "error", LAST, false, stat_client_error),
    LOSS(TRACE_LOSS_DISCONNECTED, "info", ADDED, false, stat_disconnected),
};
static const struct process_stat rejected =
    LOSS(TRACE_LOSS_REJECTED_CONCURRENT, "error", ADDED, false, stat_rejected);
static const struct process_stat at_the_end[] = {
    OTHER("heapprofd_sampling_interval_adjusted", "info", LAST, true, stat_interval_adjusted),
    OTHER("heapprofd_unwind_time_us", "info", ADDED, true, stat_unwinding_time),
    OTHER("heapprofd_unwind_samples", "info", ADDED, true, stat_samples),
    LOSS(TRACE_LOSS_BLOCKED_US, "info", ADDED, true, stat_blocked),
    OTHER("heapprofd_last_profile_timestamp", "info", GREATEST, true, stat_last_dump),
};
static const struct process_stat disagreements =
    OTHER("hp_figures_disagree", "data_loss", ADDED, false, stat_disagreements);
static const struct process_stat unexplained =
    OTHER("hp_unexplained_memory", "data_loss", GREATEST, false, stat_unexplained);
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define LOST_COUNT TRACE_LOSS_FIRST_FLAG
#define BY_PROCESS_COUNT (LENGTH(before_malformed) + 1 + LENGTH(at_the_end) + 2 + LOST_COUNT)
#define SINGLE_COUNT 4

/* Add the rows about counters that went down, which are by upid. */
static void add_malformed(struct query_trace *trace, const uint64_t *malformed)
{
    for (size_t i = 0; i < trace->process_count; i++)
        if (malformed[i] > 0)
            trace->stats[trace->stat_count++] =
                (struct query_stat){.name = "heapprofd_malformed_packet",
                                    .severity = "error",
                                    .indexed = true,
                                    .index = trace->bases.process + (int64_t)i,
                                    .value = (int64_t)malformed[i]};
}

/* Count mappings whose files will not be found later: below a directory for trials, without a build
 * id. */
static uint64_t count_lost_trials(const struct profile *profile)
{
    static const char directory[] = "/data/local/tmp/";
    uint64_t count = 0;
    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        count += *mapping->build_id == '\0' &&
                 strncmp(mapping->path, directory, sizeof(directory) - 1) == 0;
    }
    return count;
}

static void add_all(struct query_trace *trace, const struct process_stat *stats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_by_process(trace, &stats[i]);
}

/* Add the losses without a row of Perfetto's. Each heap of a process repeats its process's losses,
 * so take the greatest; others are of the heap. */
static void add_losses(struct query_trace *trace)
{
    for (enum trace_loss_id id = 0; id < LOST_COUNT; id++) {
        const struct trace_loss *loss = &trace_losses[id];
        const struct process_stat stat = {.severity = loss->effects != 0 ? "data_loss" : "info",
                                          .combining = id <= TRACE_LOST_LAST ? GREATEST : ADDED,
                                          .loss = id};
        if (id != TRACE_LOSS_BLOCKED_US)
            add_by_process(trace, &stat);
    }
}

static void fill_stats(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    uint64_t *malformed = xcalloc(trace->process_count, sizeof(*malformed));
    trace->stats =
        xcalloc(BY_PROCESS_COUNT * profile->heap_count + trace->process_count + SINGLE_COUNT,
                sizeof(*trace->stats));
    query_trace_count_malformed(trace, malformed);
    add_all(trace, before_malformed, LENGTH(before_malformed));
    add_malformed(trace, malformed);
    add_single(trace, "heapprofd_missing_packet", "error", profile->missing_packets);
    add_by_process(trace, &rejected);
    add_single(trace, "heapprofd_non_finalized_profile", "error", profile->unfinished_dumps);
    add_all(trace, at_the_end, LENGTH(at_the_end));
    add_single(trace, "symbolization_tmp_build_id_not_found", "error", count_lost_trials(profile));
    add_losses(trace);
    add_by_process(trace, &disagreements);
    add_by_process(trace, &unexplained);
    add_single(trace, "hp_damaged_packet", "error", profile->damaged_packets);
    free(malformed);
}

void query_trace_need_stats(struct query_trace *trace)
{
    if (!trace->has_stats)
        fill_stats(trace);
    trace->has_stats = true;
}
