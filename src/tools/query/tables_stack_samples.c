/* SPDX-License-Identifier: Apache-2.0 */
/* Perfetto's tables of stack samples (StackSample), with the ids that its trace processor gives. */
#include "tools/query/query_table.h"

/* Return NULL for a missing text. An empty one can be in the trace. */
static struct query_value text_or_null(const char *text)
{
    return text == NULL ? query_null() : query_text(text);
}

/* --- sessions --- */

QUERY_ARRAY(session, stacks->sessions, stacks->session_count)

#define SESSION(column, expression)                                                                \
    QUERY_GETTER(session_##column, const struct profile_stack_session *session, expression)

SESSION(id, query_id(row->trace->bases.stack_session, session->row.id))
SESSION(source, text_or_null(session->source))
SESSION(timebase_unit, text_or_null(session->timebase_unit))
#undef SESSION

/* What no StackSample has. */
static struct query_value nothing(const struct query_row *row)
{
    (void)row;
    return query_null();
}

static const struct query_column session_columns[] = {
    {"id", INT, "number of the session", .get = session_id, .lookup = QUERY_INDEXED},
    {"source", TEXT, "the profiler; NULL: the trace does not say", .get = session_source},
    {"timebase_unit", TEXT, "unit of its primary counter; NULL: the trace does not say",
     .get = session_timebase_unit},
    {"cmdline", TEXT, "NULL: no StackSample says", .get = nothing},
};

/* --- what samples belong to --- */

QUERY_ARRAY(async, stacks->asyncs, stacks->async_count)

#define ASYNC(column, expression)                                                                  \
    QUERY_GETTER(async_##column, const struct profile_stack_async *async, expression)

ASYNC(id, query_id(row->trace->bases.stack_async, async->row.id))
ASYNC(name, text_or_null(async->name))
ASYNC(kind, text_or_null(async->kind))
ASYNC(parent_id, query_id(row->trace->bases.stack_async, async->parent))
#undef ASYNC

static const struct query_column async_columns[] = {
    {"id", INT, "number of the context", .get = async_id, .lookup = QUERY_INDEXED},
    {"name", TEXT, "its name; NULL: none", .get = async_name},
    {"kind", TEXT, "goroutine, fiber and the like; NULL: the trace does not say",
     .get = async_kind},
    {"parent_id", INT, "the one around it", .get = async_parent_id, .lookup = QUERY_INDEXED},
};

QUERY_ARRAY(task, stacks->tasks, stacks->task_count)

#define TASK(column, expression)                                                                   \
    QUERY_GETTER(task_##column, const struct profile_stack_task *task, expression)

TASK(id, query_id(row->trace->bases.stack_task, task->row.id))
TASK(upid, query_id(row->trace->bases.process, row->trace->stack_tasks[row->number].process))
TASK(utid, query_id(row->trace->bases.thread, row->trace->stack_tasks[row->number].thread))
TASK(async_context_id, query_id(row->trace->bases.stack_async, task->async))
#undef TASK

static const struct query_column task_columns[] = {
    {"id", INT, "number of the task", .get = task_id, .lookup = QUERY_INDEXED},
    {"upid", INT, "process; NULL: the sample does not say", .get = task_upid,
     .lookup = QUERY_INDEXED},
    {"utid", INT, "thread; NULL: the sample does not say", .get = task_utid,
     .lookup = QUERY_INDEXED},
    {"async_context_id", INT, "stack_sample_async_context.id; NULL: none",
     .get = task_async_context_id, .lookup = QUERY_INDEXED},
};

QUERY_ARRAY(execution, stacks->executions, stacks->execution_count)

#define EXECUTION(column, expression)                                                              \
    QUERY_GETTER(execution_##column, const struct profile_stack_execution *execution, expression)

EXECUTION(id, query_id(row->trace->bases.stack_execution, execution->row.id))
EXECUTION(ucpu, execution->has_cpu ? query_integer(execution->cpu) : query_null())
EXECUTION(cpu_mode, text_or_null(execution->mode))
#undef EXECUTION

static const struct query_column execution_columns[] = {
    {"id", INT, "number of the state", .get = execution_id, .lookup = QUERY_INDEXED},
    {"ucpu", INT, "processor; NULL: the sample does not say", .get = execution_ucpu},
    {"cpu_mode", TEXT, "user, kernel, hypervisor, guest_user, guest_kernel; NULL: unknown",
     .get = execution_cpu_mode},
};

/* --- samples --- */

QUERY_ARRAY(sample, stacks->samples, stacks->sample_count)

#define SAMPLE(column, expression)                                                                 \
    QUERY_GETTER(sample_##column, const struct profile_stack_sample *sample, expression)

SAMPLE(id, query_id(row->trace->bases.stack_sample, sample->id))
SAMPLE(source, text_or_null(sample->source))
SAMPLE(task_context_id, query_id(row->trace->bases.stack_task, sample->task))
SAMPLE(execution_context_id, query_id(row->trace->bases.stack_execution, sample->execution))
SAMPLE(callsite_id, query_id(row->trace->bases.callsite, sample->callsite))
SAMPLE(session_id, query_id(row->trace->bases.stack_session, sample->session))
#undef SAMPLE

static const struct query_column sample_columns[] = {
    {"id", INT, "number of the sample, with those that have no stack", .get = sample_id,
     .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("ts", "when, in ns", struct profile_stack_sample, boottime_ns)},
    {"source", TEXT, "the profiler; NULL: the trace does not say", .get = sample_source},
    {"task_context_id", INT, "stack_sample_task_context.id; NULL: none",
     .get = sample_task_context_id, .lookup = QUERY_INDEXED},
    {"execution_context_id", INT, "stack_sample_execution_context.id; NULL: none",
     .get = sample_execution_context_id, .lookup = QUERY_INDEXED},
    {"callsite_id", INT, "stack_profile_callsite.id, the innermost", .get = sample_callsite_id,
     .lookup = QUERY_INDEXED},
    {"session_id", INT, "stack_sample_session.id", .get = sample_session_id,
     .lookup = QUERY_INDEXED},
};

/* --- counters --- */

QUERY_ARRAY(track, stacks->tracks, stacks->track_count)

#define TRACK(column, expression)                                                                  \
    QUERY_GETTER(track_##column, const struct profile_stack_track *track, expression)

TRACK(id, query_id(row->trace->bases.counter_track, track->row.id))
TRACK(name, text_or_null(track->name))
TRACK(type, query_text(row->trace->profile->counter_tracks[track->row.id].type))
TRACK(machine_id, query_integer(0))
TRACK(unit, text_or_null(track->unit))
TRACK(description, text_or_null(track->description))
TRACK(session_id, query_id(row->trace->bases.stack_session, track->session))
TRACK(cpu, track->has_cpu ? query_integer(track->cpu) : query_null())
TRACK(is_timebase, query_integer(track->is_timebase))
#undef TRACK

static const struct query_column track_columns[] = {
    {"id", INT, "counter_track.id", .get = track_id, .lookup = QUERY_INDEXED},
    {"name", TEXT, "the counter's name", .get = track_name},
    {"type", TEXT, "stack_sample_session_counter or stack_sample_cpu_counter", .get = track_type},
    {"parent_id", INT, "NULL: none", .get = nothing},
    {"source_arg_set_id", INT, "NULL: there is no table of arguments here", .get = nothing},
    {"machine_id", INT, "0: the machine that recorded the trace", .get = track_machine_id},
    {"unit", TEXT, "ns, cycles, bytes and the like; NULL: the trace does not say",
     .get = track_unit},
    {"description", TEXT, "NULL: none", .get = track_description},
    {"session_id", INT, "stack_sample_session.id", .get = track_session_id,
     .lookup = QUERY_INDEXED},
    {"cpu", INT, "processor that it counts; NULL: all", .get = track_cpu},
    {"is_timebase", INT, "1: samples were taken by this counter; 0: it was read beside it",
     .get = track_is_timebase},
};

QUERY_ARRAY(value, stacks->counters, stacks->counter_count)

#define VALUE(column, expression)                                                                  \
    QUERY_GETTER(value_##column, const struct profile_stack_counter *value, expression)

VALUE(id, query_id(row->trace->bases.counter, value->counter))
VALUE(stack_sample_id, query_id(row->trace->bases.stack_sample, value->sample))
VALUE(track_id, query_id(row->trace->bases.counter_track,
                         row->trace->profile->counters[value->counter].track))
VALUE(value, query_real(row->trace->profile->counters[value->counter].value))
#undef VALUE

static const struct query_column value_columns[] = {
    {"id", INT, "counter.id", .get = value_id, .lookup = QUERY_INDEXED},
    {"stack_sample_id", INT, "stack_sample.id", .get = value_stack_sample_id,
     .lookup = QUERY_INDEXED},
    {"track_id", INT, "stack_sample_counter_track.id", .get = value_track_id,
     .lookup = QUERY_INDEXED},
    {"value", REAL, "as in the trace, in units of the counter's multiplier", .get = value_value},
};

const struct query_table query_stack_tables[] = {
    {"stack_sample", "samples of stacks from any profiler", QUERY_COLUMNS(sample_columns), false,
     sample_count, NULL, find_sample, NULL},
    {"stack_sample_session", "the profilers' sessions", QUERY_COLUMNS(session_columns), false,
     session_count, NULL, find_session, NULL},
    {"stack_sample_task_context", "processes, threads and async contexts of stack samples",
     QUERY_COLUMNS(task_columns), false, task_count, NULL, find_task, NULL},
    {"stack_sample_async_context", "goroutines, fibers and the like of stack samples",
     QUERY_COLUMNS(async_columns), false, async_count, NULL, find_async, NULL},
    {"stack_sample_execution_context", "processors and modes of stack samples",
     QUERY_COLUMNS(execution_columns), false, execution_count, NULL, find_execution, NULL},
    {"stack_sample_counter_track", "counters of stack samples", QUERY_COLUMNS(track_columns), false,
     track_count, NULL, find_track, NULL},
    {"stack_sample_counter", "values of counters at stack samples", QUERY_COLUMNS(value_columns),
     false, value_count, NULL, find_value, NULL},
    {0},
};
