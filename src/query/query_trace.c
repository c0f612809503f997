/* See query_trace.h. */
#include "query/query_trace.h"

#include <errno.h>
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
    trace->sample_firsts = calloc(count + 1, sizeof(*trace->sample_firsts));
    trace->part_firsts = calloc(count + 1, sizeof(*trace->part_firsts));
    if (trace->dumps == NULL || trace->sample_firsts == NULL || trace->part_firsts == NULL)
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
    for (size_t i = 0; i < count; i++) {
        const struct profile_dump *dump = query_trace_dump(trace, i);
        trace->sample_firsts[i + 1] = trace->sample_firsts[i] + dump->sample_count;
        trace->part_firsts[i + 1] = trace->part_firsts[i] + dump->part_count;
    }
    return 0;
}

/* --- the whole --- */

int query_trace_open(struct query_trace *trace, const char *path, struct profile *profile,
                     const struct query_bases *bases)
{
    *trace = (struct query_trace){.path = strdup(path), .profile = profile, .bases = *bases};
    if (trace->path == NULL || make_processes(trace) < 0 || make_dumps(trace) < 0) {
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
    free(trace->sample_firsts);
    free(trace->part_firsts);
    free(trace->stats);
    free(trace->allocations);
    free(trace->allocation_firsts);
    free(trace->totals);
    for (size_t i = 0; i < trace->summary_name_count; i++)
        free(trace->summary_names[i]);
    free(trace->summary_names);
    free(trace->summary);
    free(trace->intervals);
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
    bases.dump += (int64_t)trace->dump_count;
    bases.look += (int64_t)profile->look_count;
    return bases;
}
