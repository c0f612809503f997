/* See query_trace.h. */
#include "query/query_trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/id_map.h"

/* --- processes and threads --- */

static uint32_t add_process(struct query_trace *trace, struct id_map *rows, int32_t pid)
{
    uint32_t row = (uint32_t)trace->process_count;
    trace->processes[trace->process_count++] =
        (struct query_process){.pid = pid, .process = PROFILE_NONE, .parent = PROFILE_NONE};
    if (id_map_set(rows, (uint32_t)pid, row) < 0)
        trace->error = -ENOMEM;
    return row;
}

/* A process takes its row when it or a child of it is met first, and its parent's comes before it.
 * Row 0 is pid 0. */
static void fill_processes(struct query_trace *trace, struct id_map *rows)
{
    const struct profile *profile = trace->profile;
    add_process(trace, rows, 0);
    for (size_t i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        uint32_t parent = PROFILE_NONE;
        if (process->first_argument != NULL) {
            parent = id_map_find(rows, (uint32_t)process->parent_pid);
            if (parent == ID_MAP_NONE)
                parent = add_process(trace, rows, process->parent_pid);
        }
        uint32_t row = id_map_find(rows, (uint32_t)process->pid);
        /* The same pid once more is another program, after an exec. */
        if (row == ID_MAP_NONE || trace->processes[row].process != PROFILE_NONE)
            row = add_process(trace, rows, process->pid);
        trace->processes[row].process = (uint32_t)i;
        trace->processes[row].parent_pid = process->parent_pid;
        trace->processes[row].parent = parent;
        trace->process_rows[i] = row;
    }
    for (size_t i = 0; i < profile->thread_count; i++) {
        if (id_map_find(rows, (uint32_t)profile->threads[i].pid) == ID_MAP_NONE)
            add_process(trace, rows, profile->threads[i].pid);
    }
}

/* Each process has its main thread, the others follow. */
static void fill_threads(struct query_trace *trace, const struct id_map *rows)
{
    const struct profile *profile = trace->profile;
    for (size_t i = 0; i < trace->process_count; i++) {
        const struct query_process *process = &trace->processes[i];
        const char *name = "";
        if (process->process != PROFILE_NONE &&
            profile->processes[process->process].first_argument != NULL)
            name = profile->processes[process->process].first_argument;
        trace->threads[trace->thread_count++] =
            (struct query_thread){.tid = process->pid, .name = name, .process = (uint32_t)i};
    }
    for (size_t i = 0; i < profile->thread_count; i++) {
        const struct profile_thread *thread = &profile->threads[i];
        uint32_t row = id_map_find(rows, (uint32_t)thread->pid);
        if (row == ID_MAP_NONE)
            continue;
        if (thread->tid == thread->pid) {
            if (*thread->name != '\0')
                trace->threads[row].name = thread->name;
            continue;
        }
        trace->threads[trace->thread_count++] =
            (struct query_thread){.tid = thread->tid, .name = thread->name, .process = row};
    }
}

static int make_processes(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct id_map rows = {0};
    size_t most = 1 + 2 * profile->process_count + profile->thread_count;
    trace->processes = calloc(most, sizeof(*trace->processes));
    trace->process_rows = calloc(profile->process_count + 1, sizeof(*trace->process_rows));
    trace->threads = calloc(most + profile->thread_count, sizeof(*trace->threads));
    if (trace->processes == NULL || trace->process_rows == NULL || trace->threads == NULL)
        return -ENOMEM;
    fill_processes(trace, &rows);
    fill_threads(trace, &rows);
    id_map_free(&rows);
    return trace->error;
}

/* --- dumps --- */

const struct profile_heap *query_trace_heap(const struct query_trace *trace, size_t dump)
{
    return &trace->profile->heaps[trace->dumps[dump].heap];
}

const struct profile_dump *query_trace_dump(const struct query_trace *trace, size_t dump)
{
    return &query_trace_heap(trace, dump)->dumps[trace->dumps[dump].number];
}

static int make_dumps(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        count += profile->heaps[i].dump_count;
    trace->dumps = calloc(count + 1, sizeof(*trace->dumps));
    if (trace->dumps == NULL)
        return -ENOMEM;
    /* Their orders are 0 to count - 1, each once. */
    for (size_t i = 0; i < profile->heap_count; i++) {
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++) {
            uint64_t order = profile->heaps[i].dumps[j].order;
            if (order < count)
                trace->dumps[order] = (struct query_dump){(uint32_t)i, (uint32_t)j};
        }
    }
    trace->dump_count = count;
    return 0;
}

/* --- rows of heap_profile_allocation --- */

/* More than any counter is, and what a double holds exactly. */
#define COUNTER_MAX 0x1p62

static int64_t whole(double value)
{
    if (!(value > 0))
        return 0;
    return value < COUNTER_MAX ? llround(value) : (int64_t)COUNTER_MAX;
}

struct query_counters query_counters_of(const struct profile_heap *heap,
                                        const struct profile_sample *sample)
{
    struct query_counters counters = {0};
    if (heap->status.dump_at_max) {
        counters.allocated_bytes = whole(sample->peak_bytes);
        /* Older recorders wrote something else there. */
        if (heap->status.first_interval_bytes != 0)
            counters.allocated_count = whole(sample->peak_count);
        return counters;
    }
    counters.allocated_bytes = whole(sample->figures.allocated_bytes);
    counters.allocated_count = whole(sample->figures.allocated_count);
    counters.freed_bytes = whole(sample->figures.freed_bytes);
    counters.freed_count = whole(sample->figures.freed_count);
    return counters;
}

static struct query_counters difference(const struct query_trace *trace, uint32_t dump,
                                        uint32_t sample, uint32_t before)
{
    const struct profile_heap *heap = query_trace_heap(trace, dump);
    const struct profile_dump *now = query_trace_dump(trace, dump);
    struct query_counters counters = query_counters_of(heap, &now->samples[sample]);
    if (before == PROFILE_NONE)
        return counters;
    struct query_counters last = query_counters_of(heap, &now[-1].samples[before]);
    counters.allocated_bytes -= last.allocated_bytes;
    counters.allocated_count -= last.allocated_count;
    counters.freed_bytes -= last.freed_bytes;
    counters.freed_count -= last.freed_count;
    return counters;
}

void query_allocation_values(const struct query_trace *trace,
                             const struct query_allocation *allocation, int64_t *count,
                             int64_t *size)
{
    struct query_counters counters =
        difference(trace, allocation->dump, allocation->sample, allocation->before);
    *count = allocation->freed ? -counters.freed_count : counters.allocated_count;
    *size = allocation->freed ? -counters.freed_bytes : counters.allocated_bytes;
}

/* Callsites with a frame that the trace does not have: Perfetto leaves their samples out. */
static bool *find_unplaced(const struct profile *profile)
{
    bool *unplaced = calloc(profile->callsite_count + 1, sizeof(*unplaced));
    for (size_t i = 0; unplaced != NULL && i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        unplaced[i] = profile->frames[callsite->frame].mapping == PROFILE_NONE ||
                      (callsite->parent != PROFILE_NONE && unplaced[callsite->parent]);
    }
    return unplaced;
}

static void append_rows(struct query_trace *trace, uint32_t dump, const uint32_t *before,
                        const bool *unplaced)
{
    const struct profile_dump *now = query_trace_dump(trace, dump);
    for (size_t i = 0; i < now->sample_count; i++) {
        uint32_t callsite = now->samples[i].callsite;
        if (unplaced[callsite])
            continue;
        struct query_allocation row = {dump, (uint32_t)i, before[callsite], false};
        struct query_counters grown = difference(trace, dump, row.sample, row.before);
        if (grown.allocated_bytes < 0 || grown.allocated_count < 0 || grown.freed_bytes < 0 ||
            grown.freed_count < 0) {
            trace->malformed_samples++;
            continue;
        }
        if (grown.allocated_bytes != 0 || grown.allocated_count != 0)
            trace->allocations[trace->allocation_count++] = row;
        row.freed = true;
        if (grown.freed_bytes != 0 || grown.freed_count != 0)
            trace->allocations[trace->allocation_count++] = row;
    }
}

static int fill_allocations(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    bool *unplaced = find_unplaced(profile);
    uint32_t *before = malloc((profile->callsite_count + 1) * sizeof(*before));
    size_t most = 0;
    for (size_t i = 0; i < trace->dump_count; i++)
        most += 2 * query_trace_dump(trace, i)->sample_count;
    trace->allocations = reallocarray(NULL, most + 1, sizeof(*trace->allocations));
    trace->allocation_ends = calloc(trace->dump_count + 1, sizeof(*trace->allocation_ends));
    int code = -ENOMEM;
    if (unplaced == NULL || before == NULL || trace->allocations == NULL ||
        trace->allocation_ends == NULL)
        goto out;
    memset(before, 0xff, (profile->callsite_count + 1) * sizeof(*before));
    for (size_t i = 0; i < trace->dump_count; i++) {
        const struct profile_dump *last =
            trace->dumps[i].number == 0 ? NULL : query_trace_dump(trace, i) - 1;
        for (size_t j = 0; last != NULL && j < last->sample_count; j++)
            before[last->samples[j].callsite] = (uint32_t)j;
        append_rows(trace, (uint32_t)i, before, unplaced);
        for (size_t j = 0; last != NULL && j < last->sample_count; j++)
            before[last->samples[j].callsite] = PROFILE_NONE;
        trace->allocation_ends[i] = trace->allocation_count;
    }
    struct query_allocation *fitted =
        realloc(trace->allocations, (trace->allocation_count + 1) * sizeof(*trace->allocations));
    trace->allocations = fitted != NULL ? fitted : trace->allocations;
    code = 0;
out:
    free(unplaced);
    free(before);
    return code;
}

int query_trace_need_allocations(struct query_trace *trace)
{
    if (!trace->has_allocations) {
        trace->has_allocations = true;
        trace->error = fill_allocations(trace);
    }
    return trace->error;
}

/* --- stats --- */

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

static int make_stats(struct query_trace *trace)
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

/* --- the whole --- */

int query_trace_open(struct query_trace *trace, const char *path, struct profile *profile,
                     const struct query_bases *bases)
{
    *trace = (struct query_trace){.path = strdup(path), .profile = profile, .bases = *bases};
    if (trace->path == NULL || make_processes(trace) < 0 || make_dumps(trace) < 0 ||
        make_stats(trace) < 0) {
        query_trace_close(trace);
        return -ENOMEM;
    }
    return 0;
}

void query_trace_close(struct query_trace *trace)
{
    profile_free(trace->profile);
    free(trace->path);
    free(trace->processes);
    free(trace->process_rows);
    free(trace->threads);
    free(trace->dumps);
    free(trace->stats);
    free(trace->allocations);
    free(trace->allocation_ends);
    for (size_t i = 0; i < trace->summary_name_count; i++)
        free(trace->summary_names[i]);
    free(trace->summary_names);
    free(trace->summary);
    *trace = (struct query_trace){0};
}

struct query_bases query_trace_next_bases(const struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct query_bases bases = trace->bases;
    bases.process += (int64_t)trace->process_count;
    bases.thread += (int64_t)trace->thread_count;
    bases.mapping += (int64_t)profile->mapping_count;
    bases.frame += (int64_t)profile->frame_count;
    bases.callsite += (int64_t)profile->callsite_count;
    bases.symbol += (int64_t)profile->symbol_line_count;
    return bases;
}
