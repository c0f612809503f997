/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the builder that read StackSamples share:
 *
 *   builder_stack_contexts.c  what samples name: counters, tasks and the like, interned or inside
 *   builder_stack_samples.c   samples that are counted in bytes, as heaps
 *   builder_stack_rows.c      all samples, as rows of SQL, if as_in_trace
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_STACK_SAMPLES_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_STACK_SAMPLES_H

#include "profile/builder/builder_sequence.h"
#include "profile/stack_samples.h"

/* Texts are strings of the builder; 0: none, or empty. */
struct stack_counter {
    uint32_t name, unit_name, description;
    uint32_t unit, scope;
    bool has_name;
    uint64_t multiplier;
};

struct stack_task {
    uint64_t iid, async_id;
    int32_t pid, tid;
    bool has_pid, has_tid;
};

struct stack_execution {
    uint64_t iid;
    uint32_t cpu, mode;
    bool has_cpu;
};

/* Where an async context is, in the rows' asyncs, and its parent. */
struct stack_async {
    uint64_t parent_iid;
    bool is_linked; /* the row has its parent */
};

struct stack_heap;
struct stack_rows;

struct builder_stack_samples {
    struct stack_counter *counters; /* each once */
    struct intern_table counter_ids;
    struct stack_task *tasks;
    struct stack_execution *executions;
    size_t counter_capacity, counter_count, task_count, task_capacity, execution_count,
        execution_capacity;
    struct stack_heap *heaps;
    struct intern_table heap_ids; /* by sequence, pid, name and source */
    size_t heap_count, heap_capacity;
    struct stack_rows *rows; /* NULL: none */
};

/* What a sequence says of its stack samples. The maps are of the ids of interned data. */
struct sequence_stacks {
    struct id_map counters, tasks, executions, asyncs; /* indexes */
    struct id_map callsites;                           /* by pid and callstack, if as_in_trace */
    uint32_t source;     /* string: the profiler of the stack samples */
    uint32_t counter;    /* of samples without one, as in the map, + 1; 0: none */
    uint32_t *followers; /* of samples without some: counters */
    size_t follower_count, follower_capacity;
};

/* The parts of a StackSample. A span is NULL, and an id 0, if it does not have them. */
struct stack_sample {
    struct proto_span message, task, execution, callstack, counter;
    uint64_t task_iid, execution_iid, callstack_iid, counter_iid, weight;
    bool has_weight;
};

/* Return NULL: no memory. */
struct builder_stack_samples *stack_samples_of(struct builder *builder);
/* Make the sequence's stacks, if it has none. Return 0 or the builder's error. */
int stack_need(struct builder *builder, struct builder_sequence *sequence);
/* Return the sequence's stacks, or empty ones. */
const struct sequence_stacks *stack_known(const struct builder_sequence *sequence);

/* Add a counter. Return its index, or PROFILE_NONE with *code set. */
uint32_t stack_counter_add(struct builder *builder, struct proto_span message, int *code);
/* Find what a sample names. Return PROFILE_NONE or NULL if it names none, or one that the trace
 * does not have, or with *code set. */
uint32_t stack_counter_of(struct builder *builder, const struct builder_sequence *sequence,
                          const struct stack_sample *sample, int *code);
const struct stack_task *stack_task_of(struct builder *builder,
                                       const struct builder_sequence *sequence,
                                       const struct stack_sample *sample, struct stack_task *inside,
                                       int *code);
const struct stack_execution *stack_execution_of(struct builder *builder,
                                                 const struct builder_sequence *sequence,
                                                 const struct stack_sample *sample,
                                                 struct stack_execution *inside, int *code);
/* Return whether a callstack inside a sample has ids of frames, as in early versions of the format.
 */
bool stack_has_frame_ids(struct proto_span callstack);
/* Return the callsite of an InlineCallstack; PROFILE_NONE: it has no frames, or *code is set. */
uint32_t stack_inline_callsite(struct builder *builder, struct proto_span callstack, int *code);

/* --- rows --- */

/* Read an async context. Return its index, or PROFILE_NONE with *code set. */
uint32_t stack_rows_async(struct builder *builder, struct proto_span message, uint64_t *iid,
                          int *code);
/* Make a row of a sample. Return 0, -EBADMSG, or the builder's error. */
int stack_rows_take(struct builder *builder, struct builder_sequence *sequence,
                    const struct stack_sample *sample, uint64_t packet_ns);
void stack_rows_free(struct stack_rows *rows);

/* --- samples --- */

/* Read defaults of a sequence's samples, something interned that they name, a sample. Return 0 or a
 * negative errno. */
void builder_forget_stacks(struct builder_sequence *sequence);
int builder_stack_defaults(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span defaults);
int builder_stack_counter(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span entry);
int builder_stack_task(struct builder *builder, struct builder_sequence *sequence,
                       struct proto_span entry);
int builder_stack_execution(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span entry);
int builder_stack_async(struct builder *builder, struct builder_sequence *sequence,
                        struct proto_span entry);
int builder_stack_sample(struct builder *builder, struct builder_sequence *sequence,
                         struct proto_span message, uint64_t packet_ns);
/* Make dumps of all samples that are left. */
void builder_stack_finish(struct builder *builder);
/* Number the rows of samples, after times became trace time and counters have their order. */
void builder_stack_rows_finish(struct builder *builder);
void builder_stack_free(struct builder_stack_samples *samples);

#endif
