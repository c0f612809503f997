/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make the rows of StackSamples that Perfetto's trace processor has (profile/stack_samples.h). Only
 * if as_in_trace.
 *
 * Packets of several sequences are not in the order of time in the file. So samples, and what they
 * name, are collected first; what samples refer to is an index until builder_stack_rows_finish()
 * numbers everything in the order of time. Values of counters are counters like others. Until
 * then, their track is an index in the rows' tracks, with PROVISIONAL.
 */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_stack_samples.h"
#include "util/array.h"

#define SCOPE_CPU 2u
#define PROVISIONAL (UINT32_C(1) << 31)
#define BEING_NUMBERED (PROFILE_NONE - 1)

struct stack_rows {
    struct intern_table task_ids, execution_ids, track_ids;
    struct id_map sessions; /* by sequence */
    struct stack_async *asyncs;
    size_t session_capacity, async_capacity, async_link_capacity, task_capacity, execution_capacity,
        track_capacity, sample_capacity, counter_capacity;
    uint32_t *followers; /* of the sample that is being read */
    size_t follower_count, follower_capacity;
    uint32_t *chain; /* async contexts, from the innermost one */
    size_t chain_count, chain_capacity;
};

void stack_rows_free(struct stack_rows *rows)
{
    if (rows == NULL)
        return;
    intern_free(&rows->task_ids);
    intern_free(&rows->execution_ids);
    intern_free(&rows->track_ids);
    id_map_free(&rows->sessions);
    free(rows->asyncs);
    free(rows->followers);
    free(rows->chain);
    free(rows);
}

/* Return NULL: no memory. */
static struct stack_rows *rows_of(struct builder *builder)
{
    struct builder_stack_samples *samples = stack_samples_of(builder);
    struct profile *profile = builder->profile;
    if (samples != NULL && samples->rows == NULL)
        samples->rows = calloc(1, sizeof(*samples->rows));
    if (profile->stack_samples == NULL)
        profile->stack_samples = calloc(1, sizeof(*profile->stack_samples));
    if (samples == NULL || samples->rows == NULL || profile->stack_samples == NULL) {
        builder_fail(builder);
        return NULL;
    }
    return samples->rows;
}

static const char *text_or_null(const struct builder *builder, uint32_t text)
{
    return text == 0 ? NULL : builder->strings[text];
}

/* --- async contexts --- */

uint32_t stack_rows_async(struct builder *builder, struct proto_span message, uint64_t *iid,
                          int *code)
{
    struct stack_rows *rows = rows_of(builder);
    struct profile_stack_samples *made = builder->profile->stack_samples;
    struct profile_stack_async row = {.row.id = PROFILE_NONE, .parent = PROFILE_NONE};
    struct stack_async link = {0};
    struct proto_field field;
    int status;
    *iid = 0;
    while ((status = proto_next(&message, &field)) > 0) {
        if (field.number == PB_SAMPLED_ASYNC_IID)
            *iid = field.value;
        else if (field.number == PB_SAMPLED_ASYNC_PARENT_IID)
            link.parent_iid = field.value;
        else if (field.number == PB_SAMPLED_ASYNC_NAME)
            row.name = text_or_null(builder, builder_string_of_span(builder, field.span));
        else if (field.number == PB_SAMPLED_ASYNC_KIND)
            row.kind = text_or_null(builder, builder_string_of_span(builder, field.span));
    }
    *code = status < 0 ? -EBADMSG : builder->error;
    if (*code < 0)
        return PROFILE_NONE;
    size_t used = made->async_count;
    if (used >= BEING_NUMBERED ||
        ARRAY_RESERVE(&rows->asyncs, &rows->async_link_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&made->asyncs, &rows->async_capacity, used, 1) < 0) {
        *code = builder_fail(builder);
        return PROFILE_NONE;
    }
    rows->asyncs[used] = link;
    made->asyncs[made->async_count++] = row;
    return (uint32_t)used;
}

/* Return the async context with an id, after all around it have their parents. */
static uint32_t link_async(struct builder *builder, const struct builder_sequence *sequence,
                           uint64_t iid)
{
    const struct id_map *known = &stack_known(sequence)->asyncs;
    uint32_t found = iid == 0 ? ID_MAP_NONE : id_map_find(known, iid);
    builder->losses.missing_contexts += iid != 0 && found == ID_MAP_NONE;
    for (uint32_t at = found; at != ID_MAP_NONE;) {
        struct stack_async *link = &builder->stack_samples->rows->asyncs[at];
        if (link->is_linked)
            break;
        link->is_linked = true;
        uint32_t parent =
            link->parent_iid == 0 ? ID_MAP_NONE : id_map_find(known, link->parent_iid);
        builder->profile->stack_samples->asyncs[at].parent = parent;
        at = parent;
    }
    return found;
}

/* --- what a sample names; these return PROFILE_NONE for nothing, or after an error in *code --- */

static uint32_t take_task(struct builder *builder, const struct builder_sequence *sequence,
                          const struct stack_task *task, uint64_t packet_ns, int *code)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    struct profile_stack_task row = {.row.id = PROFILE_NONE,
                                     .pid = task->has_pid ? task->pid : PROFILE_NO_PID,
                                     .tid = task->tid,
                                     .has_tid = task->has_tid,
                                     .async = link_async(builder, sequence, task->async_id)};
    if (task->has_pid)
        builder_mention(builder, row.pid, 0, packet_ns);
    if (task->has_tid)
        builder_mention(builder, row.pid, row.tid, packet_ns);
    made->has_lone_threads |= task->has_tid && !task->has_pid;
    const uint32_t key[] = {(uint32_t)row.pid, (uint32_t)row.tid, row.has_tid, row.async};
    bool added;
    uint64_t id = intern_bytes(&rows->task_ids, key, sizeof(key), &added);
    if (id == 0 ||
        (added && ARRAY_ADD(&made->tasks, &made->task_count, &rows->task_capacity, row) < 0))
        *code = builder_fail(builder);
    return *code < 0 ? PROFILE_NONE : (uint32_t)(id - 1);
}

static uint32_t take_execution(struct builder *builder, const struct stack_execution *execution,
                               int *code)
{
    static const char *const modes[] = {NULL,         "user",       "kernel",
                                        "hypervisor", "guest_user", "guest_kernel"};
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    uint32_t mode = execution->mode < sizeof(modes) / sizeof(modes[0]) ? execution->mode : 0;
    const struct profile_stack_execution row = {.row.id = PROFILE_NONE,
                                                .cpu = execution->cpu,
                                                .has_cpu = execution->has_cpu,
                                                .mode = modes[mode]};
    const uint32_t key[] = {row.cpu, row.has_cpu, mode};
    bool added;
    uint64_t id = intern_bytes(&rows->execution_ids, key, sizeof(key), &added);
    if (id == 0 || (added && ARRAY_ADD(&made->executions, &made->execution_count,
                                       &rows->execution_capacity, row) < 0))
        *code = builder_fail(builder);
    return *code < 0 ? PROFILE_NONE : (uint32_t)(id - 1);
}

/* Return the session of a sequence's samples. */
static uint32_t take_session(struct builder *builder, const struct builder_sequence *sequence,
                             int *code)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    uint64_t number = (uint64_t)(sequence - builder->sequences);
    uint32_t known = id_map_find(&rows->sessions, number);
    if (known != ID_MAP_NONE)
        return known;
    const struct profile_stack_session row = {
        .row.id = PROFILE_NONE, .source = text_or_null(builder, stack_known(sequence)->source)};
    if (ARRAY_ADD(&made->sessions, &made->session_count, &rows->session_capacity, row) < 0 ||
        id_map_set(&rows->sessions, number, (uint32_t)made->session_count - 1) < 0)
        *code = builder_fail(builder);
    return *code < 0 ? PROFILE_NONE : (uint32_t)made->session_count - 1;
}

static uint32_t take_callsite(struct builder *builder, struct builder_sequence *sequence,
                              const struct stack_sample *sample, int32_t pid, int *code)
{
    uint32_t index;
    if (sample->callstack_iid != 0) {
        index = id_map_find(&sequence->callstacks, sample->callstack_iid);
        builder->losses.missing_frames += index == ID_MAP_NONE;
    } else if (sample->callstack.at == NULL) {
        return PROFILE_NONE;
    } else if (!stack_has_frame_ids(sample->callstack)) {
        return stack_inline_callsite(builder, sample->callstack, code);
    } else {
        *code = builder_intern(builder, sequence, INTERNED_CALLSTACK, sample->callstack);
        index = *code < 0 ? ID_MAP_NONE : id_map_find(&sequence->callstacks, 0);
    }
    struct sequence_stacks *stacks = sequence->stacks;
    if (index == ID_MAP_NONE)
        return PROFILE_NONE;
    /* Samples of several processes alternate, and each process has callsites of its own. */
    uint64_t key = (uint64_t)(uint32_t)pid << 32 | index;
    uint32_t callsite = id_map_find(&stacks->callsites, key);
    if (callsite != ID_MAP_NONE)
        return callsite;
    builder_resolve_for(builder, sequence, pid);
    callsite = builder_resolve_whole(builder, sequence, index);
    if (callsite != PROFILE_NONE && id_map_set(&stacks->callsites, key, callsite) < 0)
        builder_fail(builder);
    *code = builder->error;
    return callsite;
}

/* --- counters --- */

/* What a sample's counters depend on. */
struct stack_place {
    uint32_t session, source;
    struct stack_execution execution;
    uint64_t packet_ns;
};

static const char *unit_of(const struct builder *builder, const struct stack_counter *counter)
{
    static const char *const units[] = {"",
                                        "ns",
                                        "cycles",
                                        "instructions",
                                        "bytes",
                                        "page-faults",
                                        "cache-misses",
                                        "cache-references",
                                        "branch-misses",
                                        "count"};
    if (counter->unit == 0)
        return text_or_null(builder, counter->unit_name);
    return counter->unit < sizeof(units) / sizeof(units[0]) ? units[counter->unit] : "";
}

/* Return the track of a counter; PROFILE_NONE: it is one of a processor, which the sample does not
 * name. */
static uint32_t take_track(struct builder *builder, const struct stack_place *place,
                           const struct stack_counter *counter, bool is_timebase, int *code)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    bool of_cpu = counter->scope == SCOPE_CPU;
    if (of_cpu && !place->execution.has_cpu)
        return PROFILE_NONE;
    struct profile_stack_track row = {
        .row.id = PROFILE_NONE,
        .session = place->session,
        .cpu = of_cpu ? place->execution.cpu : 0,
        .has_cpu = of_cpu,
        .is_timebase = is_timebase,
        .name = counter->has_name ? builder->strings[counter->name] : NULL,
        .unit = unit_of(builder, counter),
        .description = text_or_null(builder, counter->description),
    };
    const uint32_t key[] = {row.session, place->source, counter->name, row.cpu, row.has_cpu};
    bool added;
    uint64_t id = intern_bytes(&rows->track_ids, key, sizeof(key), &added);
    if (id == 0 || id > PROVISIONAL ||
        (added && ARRAY_ADD(&made->tracks, &made->track_count, &rows->track_capacity, row) < 0)) {
        *code = builder_fail(builder);
        return PROFILE_NONE;
    }
    return (uint32_t)(id - 1);
}

/* Add a value of a counter. Return whether it has a track. */
static bool take_value(struct builder *builder, const struct stack_place *place, uint32_t counter,
                       uint64_t weight, bool is_timebase, int *code)
{
    uint32_t track =
        take_track(builder, place, &builder->stack_samples->counters[counter], is_timebase, code);
    if (track == PROFILE_NONE)
        return false;
    *code = builder_track_value(builder, PROVISIONAL | track, place->packet_ns, (double)weight);
    return *code == 0;
}

static uint32_t take_primary(struct builder *builder, const struct builder_sequence *sequence,
                             const struct stack_sample *sample, const struct stack_place *place,
                             int *code)
{
    struct profile_stack_session *session =
        &builder->profile->stack_samples->sessions[place->session];
    uint32_t counter = stack_counter_of(builder, sequence, sample, code);
    if (counter == PROFILE_NONE)
        return 0;
    if (session->timebase_unit == NULL)
        session->timebase_unit = unit_of(builder, &builder->stack_samples->counters[counter]);
    return sample->has_weight && take_value(builder, place, counter, sample->weight, true, code);
}

/* Call `take` with each number of a repeated field, packed or not. */
static int take_numbers(const struct proto_field *field, int (*take)(void *context, uint64_t value),
                        void *context)
{
    struct proto_span packed = field->span;
    uint64_t value;
    int code = 0;
    if (field->type == PROTO_VARINT)
        return take(context, field->value);
    while (code == 0 && packed.at < packed.end)
        code = proto_read_varint(&packed, &value) ? take(context, value) : -EBADMSG;
    return code;
}

/* The further counters of a sample while they are read. */
struct followers {
    struct builder *builder;
    const struct builder_sequence *sequence;
    const struct stack_place *place;
    const uint32_t *counters; /* PROFILE_NONE: the trace does not have it */
    size_t count, used;
    uint32_t values;
};

static int add_follower(struct builder *builder, uint32_t counter)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    if (ARRAY_ADD(&rows->followers, &rows->follower_count, &rows->follower_capacity, counter) < 0)
        return builder_fail(builder);
    return 0;
}

static int take_follower_iid(void *context, uint64_t iid)
{
    struct followers *followers = context;
    struct builder *builder = followers->builder;
    uint32_t counter = id_map_find(&stack_known(followers->sequence)->counters, iid);
    builder->losses.missing_contexts += counter == ID_MAP_NONE;
    return add_follower(builder, counter);
}

static int take_follower_weight(void *context, uint64_t weight)
{
    struct followers *followers = context;
    int code = 0;
    if (followers->used == followers->count)
        return 0;
    uint32_t counter = followers->counters[followers->used++];
    if (counter != PROFILE_NONE)
        followers->values +=
            take_value(followers->builder, followers->place, counter, weight, false, &code);
    return code;
}

/* Read the fields of a sample with this number. */
static int take_fields(struct followers *followers, struct proto_span message, uint32_t number)
{
    struct proto_field field;
    int code = 0;
    while (code == 0 && proto_next(&message, &field) > 0) {
        if (field.number != number)
            continue;
        if (number == PB_STACK_SAMPLE_FOLLOWER_DESCRIPTORS) {
            uint32_t counter = stack_counter_add(followers->builder, field.span, &code);
            code = code < 0 ? code : add_follower(followers->builder, counter);
        } else {
            code = take_numbers(&field,
                                number == PB_STACK_SAMPLE_FOLLOWER_WEIGHTS ? take_follower_weight
                                                                           : take_follower_iid,
                                followers);
        }
    }
    return code;
}

/* Read the counters beside the primary one: those inside the sample, else those that it names, else
 * the defaults. Return the number of values. */
static uint32_t take_followers(struct builder *builder, const struct builder_sequence *sequence,
                               const struct stack_sample *sample, const struct stack_place *place,
                               int *code)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    const struct sequence_stacks *stacks = stack_known(sequence);
    struct followers followers = {.builder = builder, .sequence = sequence, .place = place};
    rows->follower_count = 0;
    *code = take_fields(&followers, sample->message, PB_STACK_SAMPLE_FOLLOWER_DESCRIPTORS);
    if (*code == 0 && rows->follower_count == 0)
        *code = take_fields(&followers, sample->message, PB_STACK_SAMPLE_FOLLOWER_DESCRIPTOR_IIDS);
    followers.counters = rows->follower_count > 0 ? rows->followers : stacks->followers;
    followers.count = rows->follower_count > 0 ? rows->follower_count : stacks->follower_count;
    if (*code == 0 && followers.count > 0)
        *code = take_fields(&followers, sample->message, PB_STACK_SAMPLE_FOLLOWER_WEIGHTS);
    return followers.values;
}

/* --- samples --- */

static int add_sample(struct builder *builder, const struct profile_stack_sample *sample)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    if (made->sample_count >= PROFILE_NONE - 1 ||
        ARRAY_ADD(&made->samples, &made->sample_count, &rows->sample_capacity, *sample) < 0)
        return builder_fail(builder);
    builder_date(builder, DATED_STACK_SAMPLE, 0, made->sample_count - 1);
    return builder_keep(builder, 1);
}

int stack_rows_take(struct builder *builder, struct builder_sequence *sequence,
                    const struct stack_sample *sample, uint64_t packet_ns)
{
    struct profile_stack_sample row = {.boottime_ns = packet_ns,
                                       .source =
                                           text_or_null(builder, stack_known(sequence)->source),
                                       .task = PROFILE_NONE,
                                       .execution = PROFILE_NONE,
                                       .callsite = PROFILE_NONE};
    struct stack_place place = {.source = stack_known(sequence)->source, .packet_ns = packet_ns};
    struct stack_task inside;
    int code = 0, task_code, execution_code;
    /* Another machine has other clocks. */
    if (builder->machine != 0)
        return 0;
    if (rows_of(builder) == NULL || stack_need(builder, sequence) < 0)
        return builder->error;
    const struct stack_task *task = stack_task_of(builder, sequence, sample, &inside, &task_code);
    const struct stack_execution *execution =
        stack_execution_of(builder, sequence, sample, &place.execution, &execution_code);
    if (task_code < 0 || execution_code < 0)
        return -EBADMSG;
    if (execution != NULL && execution != &place.execution)
        place.execution = *execution;
    int32_t pid = task != NULL && task->has_pid ? task->pid : PROFILE_NO_PID;
    if (task != NULL)
        row.task = take_task(builder, sequence, task, packet_ns, &code);
    if (code == 0 && execution != NULL)
        row.execution = take_execution(builder, execution, &code);
    if (code == 0)
        row.session = place.session = take_session(builder, sequence, &code);
    if (code == 0)
        row.counter_count = take_primary(builder, sequence, sample, &place, &code);
    if (code == 0)
        row.counter_count += take_followers(builder, sequence, sample, &place, &code);
    if (code == 0)
        row.callsite = take_callsite(builder, sequence, sample, pid, &code);
    if (builder->error < 0)
        return builder->error;
    /* A damaged sample has a row, too, if its counters have values already. */
    row.id = (uint32_t)builder->profile->stack_samples->sample_count;
    int added = add_sample(builder, &row);
    return added < 0 ? added : code;
}

/* --- numbers --- */

static int compare_samples(const void *left_pointer, const void *right_pointer)
{
    const struct profile_stack_sample *left = left_pointer, *right = right_pointer;
    if (left->boottime_ns != right->boottime_ns)
        return (int64_t)left->boottime_ns < (int64_t)right->boottime_ns ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Shown rows first, by number. */
static int compare_rows(const void *left_pointer, const void *right_pointer)
{
    const struct profile_stack_row *left = left_pointer, *right = right_pointer;
    if (left->is_shown != right->is_shown)
        return left->is_shown ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Sort rows, and return how many are shown. They begin with a struct profile_stack_row. */
static size_t order_rows(void *rows, size_t count, size_t row_bytes)
{
    if (count > 0)
        qsort(rows, count, row_bytes, compare_rows);
    while (count > 0 &&
           !((struct profile_stack_row *)((char *)rows + (count - 1) * row_bytes))->is_shown)
        count--;
    return count;
}

static void number_row(struct profile_stack_row *row, uint32_t *ids, bool is_shown)
{
    if (row->id == PROFILE_NONE)
        row->id = (*ids)++;
    row->is_shown |= is_shown;
}

/* Number an async context, after those around it. Of a circle, the last one has no parent. */
static void number_async(struct builder *builder, uint32_t innermost, bool is_shown)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile_stack_samples *made = builder->profile->stack_samples;
    uint32_t at = innermost;
    rows->chain_count = 0;
    while (at != PROFILE_NONE && made->asyncs[at].row.id == PROFILE_NONE) {
        if (ARRAY_ADD(&rows->chain, &rows->chain_count, &rows->chain_capacity, at) < 0) {
            builder_fail(builder);
            return;
        }
        made->asyncs[at].row.id = BEING_NUMBERED;
        at = made->asyncs[at].parent;
    }
    if (at != PROFILE_NONE && made->asyncs[at].row.id == BEING_NUMBERED)
        made->asyncs[rows->chain[rows->chain_count - 1]].parent = PROFILE_NONE;
    while (rows->chain_count > 0)
        made->asyncs[rows->chain[--rows->chain_count]].row.id = made->async_ids++;
    for (at = innermost; is_shown && at != PROFILE_NONE && !made->asyncs[at].row.is_shown;
         at = made->asyncs[at].parent)
        made->asyncs[at].row.is_shown = true;
}

/* Make the track of a counter that has its first value. */
static void number_track(struct builder *builder, struct profile_stack_track *track)
{
    const struct profile_counter_track made = {
        .process = PROFILE_NONE,
        .type = track->has_cpu ? "stack_sample_cpu_counter" : "stack_sample_session_counter",
        .name = track->name == NULL ? "" : track->name,
        .unit = track->unit == NULL ? "" : track->unit};
    if (track->row.id == PROFILE_NONE)
        track->row.id = builder_track_add(builder, &made);
}

/* Number the tracks of a sample's values. They are in the order of samples; *at is the next counter
 * to look at. */
static void number_counters(struct builder *builder, const struct profile_stack_sample *sample,
                            size_t *at)
{
    struct stack_rows *rows = builder->stack_samples->rows;
    struct profile *profile = builder->profile;
    struct profile_stack_samples *made = profile->stack_samples;
    bool is_shown = sample->callsite != PROFILE_NONE;
    for (uint32_t i = 0; i < sample->counter_count && builder->error == 0; i++) {
        while (*at < profile->counter_count && (profile->counters[*at].track & PROVISIONAL) == 0)
            ++*at;
        if (*at == profile->counter_count)
            return;
        struct profile_stack_track *track =
            &made->tracks[profile->counters[*at].track & ~PROVISIONAL];
        const struct profile_stack_counter counter = {(uint32_t)*at, sample->id};
        number_track(builder, track);
        track->row.is_shown |= is_shown;
        profile->counters[(*at)++].track = track->row.id;
        if (is_shown &&
            ARRAY_ADD(&made->counters, &made->counter_count, &rows->counter_capacity, counter) < 0)
            builder_fail(builder);
    }
}

/* Number a sample and all that it names, and replace the indexes. */
static void number_sample(struct builder *builder, struct profile_stack_sample *sample)
{
    struct profile_stack_samples *made = builder->profile->stack_samples;
    bool is_shown = sample->callsite != PROFILE_NONE;
    if (sample->task != PROFILE_NONE) {
        struct profile_stack_task *task = &made->tasks[sample->task];
        number_async(builder, task->async, is_shown);
        number_row(&task->row, &made->task_ids, is_shown);
        sample->task = task->row.id;
    }
    if (sample->execution != PROFILE_NONE) {
        struct profile_stack_execution *execution = &made->executions[sample->execution];
        number_row(&execution->row, &made->execution_ids, is_shown);
        sample->execution = execution->row.id;
    }
    struct profile_stack_session *session = &made->sessions[sample->session];
    number_row(&session->row, &made->session_ids, is_shown);
    sample->session = session->row.id;
    sample->id = made->sample_ids++;
}

/* Replace the indexes in what samples name. */
static void number_references(struct profile_stack_samples *made)
{
    for (size_t i = 0; i < made->task_count; i++)
        if (made->tasks[i].async != PROFILE_NONE)
            made->tasks[i].async = made->asyncs[made->tasks[i].async].row.id;
    for (size_t i = 0; i < made->track_count; i++)
        made->tracks[i].session = made->sessions[made->tracks[i].session].row.id;
    for (size_t i = 0; i < made->async_count; i++)
        if (made->asyncs[i].parent != PROFILE_NONE)
            made->asyncs[i].parent = made->asyncs[made->asyncs[i].parent].row.id;
}

void builder_stack_rows_finish(struct builder *builder)
{
    struct profile_stack_samples *made = builder->profile->stack_samples;
    size_t counter = 0, shown = 0;
    if (made == NULL || builder->error < 0)
        return;
    if (made->sample_count > 0)
        qsort(made->samples, made->sample_count, sizeof(*made->samples), compare_samples);
    for (size_t i = 0; i < made->sample_count && builder->error == 0; i++) {
        struct profile_stack_sample sample = made->samples[i];
        number_sample(builder, &sample);
        number_counters(builder, &sample, &counter);
        if (sample.callsite != PROFILE_NONE)
            made->samples[shown++] = sample;
    }
    made->sample_count = shown;
    number_references(made);
    made->session_count = order_rows(made->sessions, made->session_count, sizeof(*made->sessions));
    made->async_count = order_rows(made->asyncs, made->async_count, sizeof(*made->asyncs));
    made->task_count = order_rows(made->tasks, made->task_count, sizeof(*made->tasks));
    made->execution_count =
        order_rows(made->executions, made->execution_count, sizeof(*made->executions));
    made->track_count = order_rows(made->tracks, made->track_count, sizeof(*made->tracks));
}
