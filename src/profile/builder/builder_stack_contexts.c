/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read what StackSamples name: counters, tasks, states of execution and async contexts. They are
 * interned data of a sequence, or inside the sample, or defaults of the sequence.
 */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_stack_samples.h"
#include "util/array.h"

/* The trace processor's mapping of frames without interned data. */
#define INLINE_MAPPING "stack_sample_inline"

struct builder_stack_samples *stack_samples_of(struct builder *builder)
{
    if (builder->stack_samples == NULL)
        builder->stack_samples = calloc(1, sizeof(*builder->stack_samples));
    if (builder->stack_samples == NULL)
        builder_fail(builder);
    return builder->stack_samples;
}

/* Return what a sequence says of its stack samples. NULL: no memory. */
static struct sequence_stacks *stacks_of(struct builder_sequence *sequence)
{
    if (sequence->stacks == NULL)
        sequence->stacks = calloc(1, sizeof(*sequence->stacks));
    return sequence->stacks;
}

int stack_need(struct builder *builder, struct builder_sequence *sequence)
{
    return stacks_of(sequence) == NULL ? builder_fail(builder) : 0;
}

void builder_forget_stacks(struct builder_sequence *sequence)
{
    struct sequence_stacks *stacks = sequence->stacks;
    if (stacks == NULL)
        return;
    id_map_free(&stacks->counters);
    id_map_free(&stacks->tasks);
    id_map_free(&stacks->executions);
    id_map_free(&stacks->asyncs);
    id_map_free(&stacks->callsites);
    free(stacks->followers);
    free(stacks);
    sequence->stacks = NULL;
}

const struct sequence_stacks *stack_known(const struct builder_sequence *sequence)
{
    static const struct sequence_stacks none;
    return sequence->stacks != NULL ? sequence->stacks : &none;
}

/* --- counters --- */

#define COUNTER(name, member) PROTO_MEMBER(PB_SAMPLED_COUNTER_##name, struct stack_counter, member)

static int read_counter(struct builder *builder, struct proto_span message,
                        struct stack_counter *counter, uint64_t *iid)
{
    static const struct proto_member members[] = {
        COUNTER(UNIT, unit),
        COUNTER(UNIT_MULTIPLIER, multiplier),
        COUNTER(SCOPE, scope),
    };
    struct proto_field field;
    int status;
    *counter = (struct stack_counter){.multiplier = 1};
    while ((status = proto_next(&message, &field)) > 0) {
        if (field.number == PB_SAMPLED_COUNTER_IID)
            *iid = field.value;
        else if (field.number == PB_SAMPLED_COUNTER_NAME)
            counter->name = builder_string_of_span(builder, field.span);
        else if (field.number == PB_SAMPLED_COUNTER_UNIT_STR)
            counter->unit_name = builder_string_of_span(builder, field.span);
        else if (field.number == PB_SAMPLED_COUNTER_DESCRIPTION)
            counter->description = builder_string_of_span(builder, field.span);
        else
            proto_store(PROTO_MEMBERS(members), &field, counter);
        counter->has_name |= field.number == PB_SAMPLED_COUNTER_NAME;
    }
    return status < 0 ? -EBADMSG : builder->error;
}

/* Add a counter with its id; see stack_counter_add(). */
static uint32_t add_counter(struct builder *builder, struct proto_span message, uint64_t *iid,
                            int *code)
{
    struct builder_stack_samples *samples = stack_samples_of(builder);
    struct stack_counter counter;
    bool added;
    *iid = 0;
    *code = samples == NULL ? builder->error : read_counter(builder, message, &counter, iid);
    if (*code < 0)
        return PROFILE_NONE;
    const uint64_t key[] = {counter.name,  counter.unit_name, counter.description, counter.unit,
                            counter.scope, counter.has_name,  counter.multiplier};
    uint64_t id = intern_bytes(&samples->counter_ids, key, sizeof(key), &added);
    if (id == 0 || (added && ARRAY_ADD(&samples->counters, &samples->counter_count,
                                       &samples->counter_capacity, counter) < 0)) {
        *code = builder_fail(builder);
        return PROFILE_NONE;
    }
    *code = builder_keep(builder, added);
    return *code == 0 ? (uint32_t)(id - 1) : PROFILE_NONE;
}

uint32_t stack_counter_add(struct builder *builder, struct proto_span message, int *code)
{
    uint64_t iid;
    return add_counter(builder, message, &iid, code);
}

int builder_stack_counter(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span entry)
{
    int code;
    uint64_t iid;
    uint32_t index = add_counter(builder, entry, &iid, &code);
    struct sequence_stacks *stacks = stacks_of(sequence);
    if (code == 0 && (stacks == NULL || id_map_set(&stacks->counters, iid, index) < 0))
        code = builder_fail(builder);
    return code;
}

/* --- tasks, states of execution, async contexts --- */

#define TASK(name, member) PROTO_MEMBER(PB_SAMPLED_TASK_##name, struct stack_task, member)

static int read_task(struct stack_task *task, struct proto_span message)
{
    static const struct proto_member members[] = {
        TASK(IID, iid),
        TASK(PID, pid),
        TASK(TID, tid),
        TASK(ASYNC_ID, async_id),
    };
    struct proto_field field;
    int status;
    *task = (struct stack_task){0};
    while ((status = proto_next(&message, &field)) > 0) {
        proto_store(PROTO_MEMBERS(members), &field, task);
        task->has_pid |= field.number == PB_SAMPLED_TASK_PID;
        task->has_tid |= field.number == PB_SAMPLED_TASK_TID;
    }
    return status < 0 ? -EBADMSG : 0;
}

int builder_stack_task(struct builder *builder, struct builder_sequence *sequence,
                       struct proto_span entry)
{
    struct builder_stack_samples *samples = stack_samples_of(builder);
    struct sequence_stacks *stacks = stacks_of(sequence);
    struct stack_task task;
    if (read_task(&task, entry) < 0)
        return -EBADMSG;
    if (samples == NULL || stacks == NULL ||
        ARRAY_ADD(&samples->tasks, &samples->task_count, &samples->task_capacity, task) < 0 ||
        id_map_set(&stacks->tasks, task.iid, (uint32_t)samples->task_count - 1) < 0)
        return builder_fail(builder);
    return 0;
}

#define EXECUTION(name, member)                                                                    \
    PROTO_MEMBER(PB_SAMPLED_EXECUTION_##name, struct stack_execution, member)

static int read_execution(struct stack_execution *execution, struct proto_span message)
{
    static const struct proto_member members[] = {
        EXECUTION(IID, iid),
        EXECUTION(CPU, cpu),
        EXECUTION(MODE, mode),
    };
    struct proto_field field;
    int status;
    *execution = (struct stack_execution){0};
    while ((status = proto_next(&message, &field)) > 0) {
        proto_store(PROTO_MEMBERS(members), &field, execution);
        execution->has_cpu |= field.number == PB_SAMPLED_EXECUTION_CPU;
    }
    return status < 0 ? -EBADMSG : 0;
}

int builder_stack_execution(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span entry)
{
    struct stack_execution execution;
    if (!builder->as_in_trace)
        return 0;
    struct builder_stack_samples *samples = stack_samples_of(builder);
    struct sequence_stacks *stacks = stacks_of(sequence);
    if (read_execution(&execution, entry) < 0)
        return -EBADMSG;
    if (samples == NULL || stacks == NULL ||
        ARRAY_ADD(&samples->executions, &samples->execution_count, &samples->execution_capacity,
                  execution) < 0 ||
        id_map_set(&stacks->executions, execution.iid, (uint32_t)samples->execution_count - 1) < 0)
        return builder_fail(builder);
    return 0;
}

int builder_stack_async(struct builder *builder, struct builder_sequence *sequence,
                        struct proto_span entry)
{
    uint64_t iid;
    int code;
    if (!builder->as_in_trace)
        return 0;
    uint32_t index = stack_rows_async(builder, entry, &iid, &code);
    struct sequence_stacks *stacks = stacks_of(sequence);
    if (code == 0 && (stacks == NULL || id_map_set(&stacks->asyncs, iid, index) < 0))
        code = builder_fail(builder);
    return code;
}

/* --- defaults --- */

static int take_stack_defaults(struct builder *builder, struct sequence_stacks *stacks,
                               struct proto_span defaults)
{
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&defaults, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_STACK_SAMPLE_DEFAULTS_SOURCE) {
            stacks->source = builder_string_of_span(builder, field.span);
            continue;
        }
        bool is_primary = field.number == PB_STACK_SAMPLE_DEFAULTS_PRIMARY_DESCRIPTOR;
        if (!is_primary && (field.number != PB_STACK_SAMPLE_DEFAULTS_FOLLOWER_DESCRIPTORS ||
                            !builder->as_in_trace))
            continue;
        uint32_t counter = stack_counter_add(builder, field.span, &code);
        if (is_primary)
            stacks->counter = counter + 1;
        else if (code == 0 && ARRAY_ADD(&stacks->followers, &stacks->follower_count,
                                        &stacks->follower_capacity, counter) < 0)
            code = builder_fail(builder);
    }
    return code == 0 ? builder->error : code;
}

int builder_stack_defaults(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span defaults)
{
    struct proto_field field;
    int code = 0;
    /* They replace the previous ones. */
    if (sequence->stacks != NULL)
        sequence->stacks->source = sequence->stacks->counter = 0,
        sequence->stacks->follower_count = 0;
    while (code == 0 && proto_next(&defaults, &field) > 0) {
        if (field.number != PB_TRACE_PACKET_DEFAULTS_STACK_SAMPLE_DEFAULTS)
            continue;
        struct sequence_stacks *stacks = stacks_of(sequence);
        code = stacks == NULL ? builder_fail(builder)
                              : take_stack_defaults(builder, stacks, field.span);
    }
    return code;
}

/* --- what a sample names --- */

/* Find the index of an id. An id that the trace does not have is counted. */
static uint32_t find_named(struct builder *builder, const struct id_map *map, uint64_t iid)
{
    uint32_t index = iid == 0 ? ID_MAP_NONE : id_map_find(map, iid);
    builder->losses.missing_contexts += iid != 0 && index == ID_MAP_NONE;
    return index;
}

uint32_t stack_counter_of(struct builder *builder, const struct builder_sequence *sequence,
                          const struct stack_sample *sample, int *code)
{
    const struct sequence_stacks *stacks = stack_known(sequence);
    *code = 0;
    if (sample->counter.at != NULL)
        return stack_counter_add(builder, sample->counter, code);
    if (sample->counter_iid != 0)
        return find_named(builder, &stacks->counters, sample->counter_iid);
    return stacks->counter == 0 ? PROFILE_NONE : stacks->counter - 1;
}

const struct stack_task *stack_task_of(struct builder *builder,
                                       const struct builder_sequence *sequence,
                                       const struct stack_sample *sample, struct stack_task *inside,
                                       int *code)
{
    *code = sample->task.at != NULL ? read_task(inside, sample->task) : 0;
    if (sample->task.at != NULL)
        return *code == 0 ? inside : NULL;
    uint32_t index = find_named(builder, &stack_known(sequence)->tasks, sample->task_iid);
    return index == ID_MAP_NONE ? NULL : &builder->stack_samples->tasks[index];
}

const struct stack_execution *stack_execution_of(struct builder *builder,
                                                 const struct builder_sequence *sequence,
                                                 const struct stack_sample *sample,
                                                 struct stack_execution *inside, int *code)
{
    *code = sample->execution.at != NULL ? read_execution(inside, sample->execution) : 0;
    if (sample->execution.at != NULL)
        return *code == 0 ? inside : NULL;
    uint32_t index = find_named(builder, &stack_known(sequence)->executions, sample->execution_iid);
    return index == ID_MAP_NONE ? NULL : &builder->stack_samples->executions[index];
}

/* --- stacks inside a sample --- */

bool stack_has_frame_ids(struct proto_span callstack)
{
    struct proto_field field;
    while (proto_next(&callstack, &field) > 0)
        if (field.number == PB_CALLSTACK_FRAME_IDS)
            return true;
    return false;
}

static int read_inline_frame(struct builder *builder, struct proto_span message,
                             struct builder_frame_key *key)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        switch (field.number) {
        case PB_INLINE_CALLSTACK_FRAME_FUNCTION_NAME:
            key->name = builder_string_of_span(builder, field.span);
            key->is_unnamed = false;
            break;
        case PB_INLINE_CALLSTACK_FRAME_SOURCE_FILE:
            key->source_file = builder_string_of_span(builder, field.span);
            break;
        case PB_INLINE_CALLSTACK_FRAME_LINE_NUMBER:
            key->line = (uint32_t)field.value;
            key->has_line = true;
            break;
        }
    }
    return status < 0 ? -EBADMSG : builder->error;
}

uint32_t stack_inline_callsite(struct builder *builder, struct proto_span callstack, int *code)
{
    static const struct profile_mapping everywhere = {.end = UINT64_MAX};
    uint32_t mapping = PROFILE_NONE, callsite = PROFILE_NONE;
    struct proto_field field;
    int status = 0;
    *code = 0;
    if (builder->as_in_trace)
        mapping =
            builder_mapping(builder, &everywhere,
                            builder_string(builder, INLINE_MAPPING, strlen(INLINE_MAPPING)), 0);
    while (*code == 0 && (status = proto_next(&callstack, &field)) > 0) {
        struct builder_frame_key key = {
            .mapping = mapping, .is_unnamed = true, .has_symbol = builder->as_in_trace};
        if (field.number != PB_INLINE_CALLSTACK_FRAMES)
            continue;
        *code = read_inline_frame(builder, field.span, &key);
        uint32_t frame = *code == 0 ? builder_frame_of(builder, &key) : PROFILE_NONE;
        if (frame != PROFILE_NONE)
            callsite = builder_callsite(builder, callsite, frame);
        if (builder->error < 0)
            *code = builder->error;
    }
    if (*code == 0 && status < 0)
        *code = -EBADMSG;
    return *code < 0 ? PROFILE_NONE : callsite;
}
