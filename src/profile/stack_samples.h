/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of stacks (Perfetto's StackSample) as rows of its trace processor's tables stack_sample,
 * stack_sample_session and so on. Only SQL reads them.
 *
 * Each row has the number that the trace processor gives it: in the order of time, of the samples
 * that name it. As in its tables, only samples with a stack are rows, and what they name. So
 * numbers have gaps.
 */
#ifndef HEAPPROFD_PROFILE_STACK_SAMPLES_H
#define HEAPPROFD_PROFILE_STACK_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts are NULL if the trace does not have them. References are numbers of rows, or PROFILE_NONE.
 * Processes and threads are those of profile.mentions. */

/* First member of those that samples name. */
struct profile_stack_row {
    uint32_t id;
    bool is_shown; /* a sample with a stack names it; always, once the profile is made */
};

/* All samples of a sequence of packets. */
struct profile_stack_session {
    struct profile_stack_row row;
    const char *source, *timebase_unit;
};

/* A goroutine, a fiber and the like. */
struct profile_stack_async {
    struct profile_stack_row row;
    uint32_t parent;
    const char *name, *kind;
};

/* The pid of a thread whose process the sample does not name. */
#define PROFILE_NO_PID INT32_MIN

struct profile_stack_task {
    struct profile_stack_row row;
    int32_t pid, tid; /* pid: PROFILE_NO_PID if the sample has none */
    bool has_tid;
    uint32_t async;
};

struct profile_stack_execution {
    struct profile_stack_row row;
    uint32_t cpu;
    bool has_cpu;
    const char *mode;
};

/* The row's id is the index in profile.counter_tracks. */
struct profile_stack_track {
    struct profile_stack_row row;
    uint32_t session, cpu;
    bool has_cpu, is_timebase;
    const char *name, *unit, *description;
};

struct profile_stack_sample {
    uint64_t boottime_ns;
    const char *source;
    uint32_t id, task, execution, session;
    uint32_t callsite;      /* in profile.callsites */
    uint32_t counter_count; /* values of counters */
};

struct profile_stack_counter {
    uint32_t counter; /* in profile.counters */
    uint32_t sample;
};

struct profile_stack_samples {
    struct profile_stack_session *sessions;
    struct profile_stack_async *asyncs;
    struct profile_stack_task *tasks;
    struct profile_stack_execution *executions;
    struct profile_stack_track *tracks;
    struct profile_stack_sample *samples; /* in the order of time */
    struct profile_stack_counter *counters;
    size_t session_count, async_count, task_count, execution_count, track_count, sample_count,
        counter_count;
    /* The numbers that are in use, with those that are not shown. */
    uint32_t session_ids, async_ids, task_ids, execution_ids, sample_ids;
    bool has_lone_threads; /* tasks without a pid */
};

#endif
