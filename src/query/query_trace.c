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

const struct query_before *query_trace_before(const struct query_trace *trace, size_t dump,
                                              size_t sample)
{
    return &trace->befores[trace->sample_firsts[dump] + sample];
}

struct query_counters query_trace_difference(const struct query_trace *trace, size_t dump,
                                             size_t sample)
{
    const struct profile_heap *heap = query_trace_heap(trace, dump);
    const struct query_before *before = query_trace_before(trace, dump, sample);
    struct query_counters counters =
        query_counters_of(heap, query_trace_dump(trace, dump)->samples[sample]);
    if (before->dump == PROFILE_NONE)
        return counters;
    struct query_counters last =
        query_counters_of(heap, query_trace_dump(trace, before->dump)->samples[before->sample]);
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
        query_trace_difference(trace, allocation->dump, allocation->sample);
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

/* By callsite, of one heap at a time: the sample that came last. */
struct last_samples {
    struct query_before *items;
    bool *unplaced;
};

static void find_before(struct query_trace *trace, size_t dump, size_t sample,
                        struct last_samples *last)
{
    uint32_t callsite = query_trace_dump(trace, dump)->samples[sample]->callsite;
    struct query_before *before = &trace->befores[trace->sample_firsts[dump] + sample];
    *before = last->items[callsite];
    before->is_left_out = last->unplaced[callsite];
    if (before->is_left_out)
        return;
    struct query_counters grown = query_trace_difference(trace, dump, sample);
    if (grown.allocated_bytes < 0 || grown.allocated_count < 0 || grown.freed_bytes < 0 ||
        grown.freed_count < 0) {
        before->is_left_out = true;
        trace->malformed_samples++;
        return;
    }
    last->items[callsite] = (struct query_before){(uint32_t)dump, (uint32_t)sample, false};
}

static void total_grow(struct trace_figures *total, const struct trace_figures *now, double sign)
{
    total->allocated_bytes += sign * now->allocated_bytes;
    total->freed_bytes += sign * now->freed_bytes;
    total->allocated_count += sign * now->allocated_count;
    total->freed_count += sign * now->freed_count;
    total->allocated_bytes_variance += sign * now->allocated_bytes_variance;
    total->freed_bytes_variance += sign * now->freed_bytes_variance;
    total->temporary_bytes += sign * now->temporary_bytes;
    total->temporary_count += sign * now->temporary_count;
}

/* One of the dumps of a heap, in order; `total` is of those before it. */
static void walk_dump(struct query_trace *trace, size_t dump, struct last_samples *last,
                      struct trace_figures *total)
{
    const struct profile_dump *now = query_trace_dump(trace, dump);
    for (size_t i = 0; i < now->sample_count; i++) {
        find_before(trace, dump, i, last);
        const struct query_before *before = query_trace_before(trace, dump, i);
        if (before->is_left_out)
            continue;
        total_grow(total, &now->samples[i]->figures, 1);
        if (before->dump != PROFILE_NONE)
            total_grow(total,
                       &query_trace_dump(trace, before->dump)->samples[before->sample]->figures,
                       -1);
    }
    trace->totals[dump] = *total;
}

static void walk_heaps(struct query_trace *trace, struct last_samples *last)
{
    const struct profile *profile = trace->profile;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        struct trace_figures total = {0};
        for (size_t j = 0; j < heap->dump_count; j++)
            walk_dump(trace, heap->dumps[j].order, last, &total);
        for (size_t j = 0; j < heap->dump_count; j++) {
            for (size_t k = 0; k < heap->dumps[j].sample_count; k++)
                last->items[heap->dumps[j].samples[k]->callsite].dump = PROFILE_NONE;
        }
    }
}

static int fill_befores(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    size_t samples = 0;
    struct last_samples last = {
        malloc((profile->callsite_count + 1) * sizeof(*last.items)),
        find_unplaced(profile),
    };
    trace->sample_firsts = calloc(trace->dump_count + 1, sizeof(*trace->sample_firsts));
    trace->totals = calloc(trace->dump_count + 1, sizeof(*trace->totals));
    for (size_t i = 0; i < trace->dump_count && trace->sample_firsts != NULL; i++) {
        trace->sample_firsts[i] = samples;
        samples += query_trace_dump(trace, i)->sample_count;
    }
    trace->befores = calloc(samples + 1, sizeof(*trace->befores));
    int code = -ENOMEM;
    if (last.items != NULL && last.unplaced != NULL && trace->sample_firsts != NULL &&
        trace->totals != NULL && trace->befores != NULL) {
        for (size_t i = 0; i <= profile->callsite_count; i++)
            last.items[i] = (struct query_before){.dump = PROFILE_NONE};
        walk_heaps(trace, &last);
        code = 0;
    }
    free(last.items);
    free(last.unplaced);
    return code;
}

int query_trace_need_befores(struct query_trace *trace)
{
    if (!trace->has_befores) {
        trace->has_befores = true;
        trace->error = fill_befores(trace);
    }
    return trace->error;
}

static int fill_allocations(struct query_trace *trace)
{
    size_t most = 0;
    if (query_trace_need_befores(trace) < 0)
        return trace->error;
    for (size_t i = 0; i < trace->dump_count; i++)
        most += 2 * query_trace_dump(trace, i)->sample_count;
    trace->allocations = reallocarray(NULL, most + 1, sizeof(*trace->allocations));
    if (trace->allocations == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < trace->dump_count; i++) {
        size_t samples = query_trace_dump(trace, i)->sample_count;
        for (size_t j = 0; j < samples; j++) {
            struct query_allocation row = {(uint32_t)i, (uint32_t)j, false};
            if (query_trace_before(trace, i, j)->is_left_out)
                continue;
            struct query_counters grown = query_trace_difference(trace, i, j);
            if (grown.allocated_bytes != 0 || grown.allocated_count != 0)
                trace->allocations[trace->allocation_count++] = row;
            row.freed = true;
            if (grown.freed_bytes != 0 || grown.freed_count != 0)
                trace->allocations[trace->allocation_count++] = row;
        }
    }
    struct query_allocation *fitted =
        realloc(trace->allocations, (trace->allocation_count + 1) * sizeof(*trace->allocations));
    trace->allocations = fitted != NULL ? fitted : trace->allocations;
    return 0;
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
    free(trace->befores);
    free(trace->sample_firsts);
    free(trace->totals);
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
