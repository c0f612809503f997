/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers the processes, threads and dumps of a trace as Perfetto does. */
#include "tools/query/query_trace.h"

#include <stdlib.h>

#include "util/id_map.h"
#include "util/xmalloc.h"

/* --- processes and threads --- */

/* The tables being filled, with an index of their rows. */
struct filling {
    struct query_trace *trace;
    struct id_map processes; /* pid: row */
    struct id_map threads;   /* pid and tid: row; PROFILE_NO_PID if stacks->has_lone_threads */
};

static uint64_t thread_key(int32_t pid, int32_t tid)
{
    return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

static void set_thread(struct filling *filling, int32_t pid, int32_t tid, uint32_t row)
{
    xmalloc_code(id_map_set(&filling->threads, thread_key(pid, tid), row));
}

/* Add a thread of a process, or of an unknown one (PROFILE_NONE). One whose process was unknown so
 * far is of the first process that names its tid. */
static void add_thread(struct filling *filling, uint32_t process, int32_t tid)
{
    struct query_trace *trace = filling->trace;
    int32_t pid = process == PROFILE_NONE ? PROFILE_NO_PID : trace->processes[process].pid;
    uint64_t key = thread_key(pid, tid);
    bool has_lone = trace->stacks->has_lone_threads;
    if (id_map_find(&filling->threads, key) != ID_MAP_NONE)
        return;
    uint32_t row =
        !has_lone ? ID_MAP_NONE : id_map_find(&filling->threads, thread_key(PROFILE_NO_PID, tid));
    if (row == ID_MAP_NONE || trace->threads[row].process != PROFILE_NONE) {
        row = (uint32_t)trace->thread_count++;
        trace->threads[row] = (struct query_thread){
            .tid = tid, .name = key == 0 ? "swapper" : "", .process = process};
    } else {
        trace->threads[row].process = process;
    }
    set_thread(filling, pid, tid, row);
    if (has_lone)
        set_thread(filling, PROFILE_NO_PID, tid, row);
}

/* Add a process and its main thread when the process is first met. */
static uint32_t meet_process(struct filling *filling, int32_t pid)
{
    struct query_trace *trace = filling->trace;
    uint32_t row = id_map_find(&filling->processes, (uint32_t)pid);
    if (row != ID_MAP_NONE)
        return row;
    row = (uint32_t)trace->process_count;
    trace->processes[trace->process_count++] =
        (struct query_process){.pid = pid, .process = PROFILE_NONE, .parent = PROFILE_NONE};
    xmalloc_code(id_map_set(&filling->processes, (uint32_t)pid, row));
    add_thread(filling, row, pid);
    return row;
}

/* Take a process's description. If it has several, as after an exec, the last one counts, but the
 * first parent stays. */
static void describe_process(struct filling *filling, uint32_t index)
{
    struct query_trace *trace = filling->trace;
    const struct profile_process *process = &trace->profile->processes[index];
    bool is_described = process->first_argument != NULL;
    uint32_t parent = is_described ? meet_process(filling, process->parent_pid) : PROFILE_NONE;
    uint32_t row = meet_process(filling, process->pid);
    struct query_process *of = &trace->processes[row];
    if (of->process == PROFILE_NONE || is_described)
        of->process = index;
    if (of->parent == PROFILE_NONE && is_described) {
        of->parent_pid = process->parent_pid;
        of->parent = parent;
    }
    if (process->arguments_are_comm && is_described)
        trace->threads[id_map_find(&filling->threads, thread_key(process->pid, process->pid))]
            .name = process->arguments;
    trace->process_rows[index] = row;
}

/* Add processes and threads in the order in which Perfetto's packets name them, then those that
 * only our packets name. Row 0 is pid 0. */
static void fill_processes(struct filling *filling)
{
    const struct profile *profile = filling->trace->profile;
    meet_process(filling, 0);
    for (size_t i = 0; i < profile->mention_count; i++) {
        const struct profile_mention *mention = &profile->mentions[i];
        if (mention->pid == PROFILE_NO_PID && mention->is_thread) {
            add_thread(filling, PROFILE_NONE, mention->tid);
            continue;
        }
        uint32_t row = meet_process(filling, mention->pid);
        if (mention->is_thread)
            add_thread(filling, row, mention->tid);
    }
    for (size_t i = 0; i < profile->process_count; i++)
        describe_process(filling, (uint32_t)i);
    for (size_t i = 0; i < profile->thread_count; i++) {
        const struct profile_thread *thread = &profile->threads[i];
        add_thread(filling, meet_process(filling, thread->pid), thread->tid);
        uint32_t row = id_map_find(&filling->threads, thread_key(thread->pid, thread->tid));
        if (row != ID_MAP_NONE && *thread->name != '\0')
            filling->trace->threads[row].name = thread->name;
    }
}

/* Note a start or an end. The events are in the order of time: the first start and the last end of
 * a tid count. */
static void take_lifetime(struct query_trace *trace, struct query_thread *thread,
                          const struct profile_lifetime *event)
{
    struct query_process *process =
        thread->process == PROFILE_NONE ? NULL : &trace->processes[thread->process];
    if (event->is_end)
        thread->end_ns = event->boottime_ns;
    else if (thread->start_ns == 0)
        thread->start_ns = event->boottime_ns;
    if (event->is_end && process != NULL && process->pid == event->tid)
        process->end_ns = event->boottime_ns;
}

static void fill_lifetimes(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct id_map rows = {0};
    for (size_t i = 1; i < trace->thread_count && profile->lifetime_count > 0; i++)
        xmalloc_code(id_map_set(&rows, (uint32_t)trace->threads[i].tid, (uint32_t)i));
    for (size_t i = 0; i < profile->lifetime_count; i++) {
        uint32_t row = id_map_find(&rows, (uint32_t)profile->lifetimes[i].tid);
        if (row != ID_MAP_NONE)
            take_lifetime(trace, &trace->threads[row], &profile->lifetimes[i]);
    }
    id_map_free(&rows);
}

/* Find the processes and threads of stack samples. */
static void fill_stack_tasks(struct filling *filling)
{
    struct query_trace *trace = filling->trace;
    trace->stack_tasks = xcalloc(trace->stacks->task_count + 1, sizeof(*trace->stack_tasks));
    for (size_t i = 0; i < trace->stacks->task_count; i++) {
        const struct profile_stack_task *task = &trace->stacks->tasks[i];
        trace->stack_tasks[i] = (struct query_stack_task){PROFILE_NONE, PROFILE_NONE};
        if (task->pid != PROFILE_NO_PID)
            trace->stack_tasks[i].process = id_map_find(&filling->processes, (uint32_t)task->pid);
        if (task->has_tid)
            trace->stack_tasks[i].thread =
                id_map_find(&filling->threads, thread_key(task->pid, task->tid));
    }
}

static void make_processes(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct filling filling = {.trace = trace};
    size_t most = 1 + 2 * profile->process_count + profile->thread_count + profile->mention_count;
    trace->processes = xcalloc(most, sizeof(*trace->processes));
    trace->process_rows = xcalloc(profile->process_count + 1, sizeof(*trace->process_rows));
    trace->threads =
        xcalloc(most + profile->thread_count + profile->mention_count, sizeof(*trace->threads));
    fill_processes(&filling);
    fill_lifetimes(trace);
    fill_stack_tasks(&filling);
    id_map_free(&filling.processes);
    id_map_free(&filling.threads);
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

static void make_dumps(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        count += profile->heaps[i].dump_count;
    trace->dumps = xcalloc(count + 1, sizeof(*trace->dumps));
    trace->sample_firsts = xcalloc(count + 1, sizeof(*trace->sample_firsts));
    trace->part_firsts = xcalloc(count + 1, sizeof(*trace->part_firsts));
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
}

/* --- counters --- */

static void make_process_tracks(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    trace->process_tracks = xcalloc(profile->counter_track_count + 1, sizeof(uint32_t));
    for (size_t i = 0; i < profile->counter_track_count; i++)
        if (profile->counter_tracks[i].process != PROFILE_NONE)
            trace->process_tracks[trace->process_track_count++] = (uint32_t)i;
}

/* --- the whole --- */

void query_trace_open(struct query_trace *trace, const char *path, struct profile *profile,
                      const struct query_bases *bases)
{
    static const struct profile_stack_samples none;
    *trace = (struct query_trace){.path = xstrdup(path), .profile = profile, .bases = *bases};
    trace->stacks = profile->stack_samples != NULL ? profile->stack_samples : &none;
    make_processes(trace);
    make_dumps(trace);
    make_process_tracks(trace);
}

void query_trace_close(struct query_trace *trace)
{
    profile_free(trace->profile);
    free(trace->path);
    free(trace->processes);
    free(trace->process_rows);
    free(trace->threads);
    free(trace->process_tracks);
    free(trace->stack_tasks);
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
    bases.memory_snapshot += (int64_t)profile->memory_snapshot_count;
    bases.counter_track += (int64_t)profile->counter_track_count;
    bases.counter += (int64_t)profile->counter_count;
    bases.stack_session += trace->stacks->session_ids;
    bases.stack_async += trace->stacks->async_ids;
    bases.stack_task += trace->stacks->task_ids;
    bases.stack_execution += trace->stacks->execution_ids;
    bases.stack_sample += trace->stacks->sample_ids;
    return bases;
}
