/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read StackSamples that are counted in bytes, as heaps named after their counters. Samples of
 * other counters (time, cycles) belong to no heap profile.
 *
 * Chromium's heap profiler writes a snapshot now and then: a sample for each block that it sampled
 * and that is live, all with the snapshot's time. Each snapshot is a dump. Its sampler draws
 * Poisson distributed hits, one in an interval of bytes on average, and a block's weight is its
 * number of hits times the interval: so a sum of weights has the variance interval times sum.
 *
 * What other profilers sample in bytes is what was allocated: one dump of all samples.
 */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

#define UNIT_BYTES 4u
#define CHROMIUM_SOURCE "org.chromium.native_heap_profiler"
/* Where its configuration has none. */
#define CHROMIUM_INTERVAL_BYTES (UINT64_C(128) << 10)

#define CHROMIUM_REMARK                                                                            \
    "Chromium's own heap profiler wrote this: the blocks that it sampled and that were live at "   \
    "each snapshot. What was freed in between is not in the trace."
#define OTHER_REMARK                                                                               \
    "Another profiler's samples of stacks, counted in bytes: what was allocated. What was freed "  \
    "is not in the trace."

struct stack_counter {
    uint64_t iid;
    uint32_t name, unit_name; /* strings */
    uint32_t unit;
    uint64_t multiplier;
};

struct stack_task {
    uint64_t iid;
    int32_t pid, tid;
};

/* The samples of a thread at a callsite. */
struct stack_entry {
    uint32_t callsite;
    int32_t tid;
    uint64_t samples;
    double bytes;
};

/* What a sequence's samples of a process and a counter become. */
struct stack_heap {
    uint32_t sequence, name, source; /* name and source are strings */
    int32_t pid;
    uint32_t heap; /* of the profile; PROFILE_NONE: no dump yet */
    bool is_chromiums;
    uint64_t first_ns, last_ns; /* of the entries */
    uint64_t unit_bytes;        /* the greatest divisor of all weights */
    struct stack_entry *entries;
    size_t count, capacity;
};

struct builder_stack_samples {
    struct stack_counter *counters;
    struct stack_task *tasks;
    struct stack_heap *heaps;
    struct intern_table heap_ids; /* by sequence, pid, name and source */
    size_t counter_count, counter_capacity, task_count, task_capacity, heap_count, heap_capacity;
};

static struct builder_stack_samples *samples_of(struct builder *builder)
{
    if (builder->stack_samples == NULL)
        builder->stack_samples = calloc(1, sizeof(*builder->stack_samples));
    if (builder->stack_samples == NULL)
        builder_fail(builder);
    return builder->stack_samples;
}

void builder_stack_free(struct builder_stack_samples *samples)
{
    if (samples == NULL)
        return;
    for (size_t i = 0; i < samples->heap_count; i++)
        free(samples->heaps[i].entries);
    intern_free(&samples->heap_ids);
    free(samples->heaps);
    free(samples->counters);
    free(samples->tasks);
    free(samples);
}

/* --- counters, tasks and defaults --- */

#define COUNTER(name, member) PROTO_MEMBER(PB_SAMPLED_COUNTER_##name, struct stack_counter, member)

/* Add a counter. Return its index, or PROFILE_NONE with *code set. */
static uint32_t add_counter(struct builder *builder, struct proto_span message, int *code)
{
    static const struct proto_member members[] = {
        COUNTER(IID, iid),
        COUNTER(UNIT, unit),
        COUNTER(UNIT_MULTIPLIER, multiplier),
    };
    struct builder_stack_samples *samples = samples_of(builder);
    struct stack_counter counter = {.multiplier = 1};
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        if (field.number == PB_SAMPLED_COUNTER_NAME)
            counter.name = builder_string_of_span(builder, field.span);
        else if (field.number == PB_SAMPLED_COUNTER_UNIT_STR)
            counter.unit_name = builder_string_of_span(builder, field.span);
        else
            proto_store(PROTO_MEMBERS(members), &field, &counter);
    }
    *code = status < 0 ? -EBADMSG : builder->error;
    if (*code == 0 && ARRAY_ADD(&samples->counters, &samples->counter_count,
                                &samples->counter_capacity, counter) < 0)
        *code = builder_fail(builder);
    return *code == 0 ? (uint32_t)samples->counter_count - 1 : PROFILE_NONE;
}

/* Return what a sequence says of its stack samples. NULL: no memory. */
static struct sequence_stacks *stacks_of(struct builder_sequence *sequence)
{
    if (sequence->stacks == NULL)
        sequence->stacks = calloc(1, sizeof(*sequence->stacks));
    return sequence->stacks;
}

void builder_forget_stacks(struct builder_sequence *sequence)
{
    if (sequence->stacks == NULL)
        return;
    id_map_free(&sequence->stacks->counters);
    id_map_free(&sequence->stacks->tasks);
    free(sequence->stacks);
    sequence->stacks = NULL;
}

static const struct sequence_stacks *known_stacks(const struct builder_sequence *sequence)
{
    static const struct sequence_stacks none;
    return sequence->stacks != NULL ? sequence->stacks : &none;
}

int builder_stack_counter(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span entry)
{
    int code;
    uint32_t index = add_counter(builder, entry, &code);
    struct sequence_stacks *stacks = stacks_of(sequence);
    if (code == 0 &&
        (stacks == NULL ||
         id_map_set(&stacks->counters, builder->stack_samples->counters[index].iid, index) < 0))
        code = builder_fail(builder);
    return code;
}

#define TASK(name, member) PROTO_MEMBER(PB_SAMPLED_TASK_##name, struct stack_task, member)

static int read_task(struct stack_task *task, struct proto_span message)
{
    static const struct proto_member members[] = {
        TASK(IID, iid),
        TASK(PID, pid),
        TASK(TID, tid),
    };
    return proto_read_members(PROTO_MEMBERS(members), message, task);
}

int builder_stack_task(struct builder *builder, struct builder_sequence *sequence,
                       struct proto_span entry)
{
    struct builder_stack_samples *samples = samples_of(builder);
    struct sequence_stacks *stacks = stacks_of(sequence);
    struct stack_task task = {0};
    if (read_task(&task, entry) < 0)
        return -EBADMSG;
    if (samples == NULL || stacks == NULL ||
        ARRAY_ADD(&samples->tasks, &samples->task_count, &samples->task_capacity, task) < 0 ||
        id_map_set(&stacks->tasks, task.iid, (uint32_t)samples->task_count - 1) < 0)
        return builder_fail(builder);
    return 0;
}

int builder_stack_defaults(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span defaults)
{
    struct proto_field field, inner;
    int code = 0;
    while (code == 0 && proto_next(&defaults, &field) > 0) {
        if (field.number != PB_TRACE_PACKET_DEFAULTS_STACK_SAMPLE_DEFAULTS)
            continue;
        struct sequence_stacks *stacks = stacks_of(sequence);
        if (stacks == NULL)
            return builder_fail(builder);
        while (code == 0 && proto_next(&field.span, &inner) > 0) {
            if (inner.number == PB_STACK_SAMPLE_DEFAULTS_SOURCE)
                stacks->source = builder_string_of_span(builder, inner.span);
            else if (inner.number == PB_STACK_SAMPLE_DEFAULTS_PRIMARY_DESCRIPTOR)
                stacks->counter = add_counter(builder, inner.span, &code) + 1;
        }
    }
    return code;
}

/* --- dumps --- */

static int compare_entries(const void *left_pointer, const void *right_pointer)
{
    const struct stack_entry *left = left_pointer, *right = right_pointer;
    if (left->callsite != right->callsite)
        return left->callsite < right->callsite ? -1 : 1;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

/* Return the average number of bytes between hits; 0: unknown. */
static uint64_t interval_of(const struct builder *builder, const struct stack_heap *stacks)
{
    uint64_t interval = builder->service.chromium_interval_bytes;
    if (!stacks->is_chromiums)
        return 0;
    if (interval == 0)
        interval = CHROMIUM_INTERVAL_BYTES;
    return stacks->unit_bytes % interval == 0 ? interval : stacks->unit_bytes;
}

static struct profile_heap *make_heap(struct builder *builder, struct stack_heap *stacks)
{
    struct profile *profile = builder->profile;
    uint32_t process = builder_process(builder, stacks->pid);
    if (process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->heaps, &builder->heap_capacity, profile->heap_count, 1) < 0 ||
        ARRAY_RESERVE(&builder->dump_capacities, &builder->dump_capacity_capacity,
                      profile->heap_count, 1) < 0) {
        builder_fail(builder);
        return NULL;
    }
    const char *remark = stacks->is_chromiums ? CHROMIUM_REMARK : OTHER_REMARK;
    stacks->heap = (uint32_t)profile->heap_count++;
    builder->dump_capacities[stacks->heap] = 0;
    profile->heaps[stacks->heap] = (struct profile_heap){
        .process = process,
        .name = builder->strings[stacks->name],
        .start_boottime_ns = stacks->first_ns,
        .is_of_stack_samples = true,
        .unknown = PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_COUNTS | PROFILE_UNKNOWN_TEMPORARY |
                   (stacks->is_chromiums ? PROFILE_UNKNOWN_ALLOCATED : PROFILE_UNKNOWN_LIVE),
        .status = {.pid = stacks->pid,
                   .heap_name = builder->strings[stacks->name],
                   .start_timestamp_ns = stacks->first_ns,
                   .final = true,
                   .exit_status = -1,
                   .remark = builder_text(builder, remark, strlen(remark))},
    };
    return &profile->heaps[stacks->heap];
}

static struct trace_figures figures_of(const struct stack_entry *entry, uint64_t interval,
                                       bool is_live)
{
    struct trace_figures figures = {
        .allocated_bytes = entry->bytes,
        .allocated_count = (double)entry->samples,
        .allocated_bytes_variance = (double)interval * entry->bytes,
        .samples = entry->samples,
    };
    if (!is_live) { /* unknown, so nothing */
        figures.freed_bytes = figures.allocated_bytes;
        figures.freed_count = figures.allocated_count;
        figures.freed_bytes_variance = figures.allocated_bytes_variance;
        figures.freed_samples = figures.samples;
    }
    return figures;
}

/* Make the sample of entries [first, first + count), which are of one callsite, a part for each
 * thread. */
static struct profile_sample *make_sample(struct builder *builder, const struct stack_heap *stacks,
                                          size_t first, size_t count, uint64_t interval)
{
    struct profile_part *parts = builder_memory(builder, count * sizeof(*parts));
    struct profile_sample *sample = builder_sample(builder);
    if (parts == NULL || sample == NULL)
        return NULL;
    *sample = (struct profile_sample){.callsite = stacks->entries[first].callsite, .parts = parts};
    for (size_t i = first; i < first + count; i++) {
        const struct stack_entry *entry = &stacks->entries[i];
        struct trace_figures figures = figures_of(entry, interval, stacks->is_chromiums);
        trace_figures_add(&sample->figures, &figures);
        if (sample->part_count == 0 || parts[sample->part_count - 1].tid != entry->tid)
            parts[sample->part_count++] = (struct profile_part){
                .type = builder->strings[0], .context = builder->strings[0], .tid = entry->tid};
        trace_figures_add(&parts[sample->part_count - 1].figures, &figures);
    }
    return sample;
}

static int fill_dump(struct builder *builder, const struct stack_heap *stacks, uint64_t interval,
                     struct profile_dump *dump)
{
    dump->samples = reallocarray(NULL, stacks->count + 1, sizeof(struct profile_sample *));
    if (dump->samples == NULL)
        return builder_fail(builder);
    for (size_t first = 0, next; first < stacks->count; first = next) {
        for (next = first + 1; next < stacks->count &&
                               stacks->entries[next].callsite == stacks->entries[first].callsite;)
            next++;
        struct profile_sample *sample = make_sample(builder, stacks, first, next - first, interval);
        if (sample == NULL)
            return builder->error;
        dump->samples[dump->sample_count++] = sample;
        dump->part_count += sample->part_count;
        trace_figures_add(&dump->total, &sample->figures);
    }
    return 0;
}

/* Make a dump of the samples so far. */
static int make_dump(struct builder *builder, struct stack_heap *stacks)
{
    struct profile *profile = builder->profile;
    uint64_t interval = interval_of(builder, stacks);
    struct profile_heap *heap =
        stacks->heap == PROFILE_NONE ? make_heap(builder, stacks) : &profile->heaps[stacks->heap];
    if (heap == NULL || ARRAY_RESERVE(&heap->dumps, &builder->dump_capacities[stacks->heap],
                                      heap->dump_count, 1) < 0)
        return builder_fail(builder);
    struct profile_dump dump = {
        .boottime_ns = stacks->last_ns,
        .start_boottime_ns = heap->start_boottime_ns,
        .final = true,
        .sequence = stacks->sequence,
        .interval_bytes = interval,
        .order = builder->dumps++,
    };
    qsort(stacks->entries, stacks->count, sizeof(*stacks->entries), compare_entries);
    if (fill_dump(builder, stacks, interval, &dump) < 0) {
        free(dump.samples);
        return builder->error;
    }
    stacks->count = 0;
    heap->interval_bytes = heap->first_interval_bytes = interval;
    heap->status.interval_bytes = heap->status.first_interval_bytes = interval;
    heap->status.timestamp_ns = stacks->last_ns;
    heap->status.heap_samples += dump.total.samples;
    heap->packet_boottime_ns = stacks->last_ns;
    heap->dumps[heap->dump_count++] = dump;
    return 0;
}

void builder_stack_finish(struct builder *builder)
{
    struct builder_stack_samples *samples = builder->stack_samples;
    for (size_t i = 0; samples != NULL && i < samples->heap_count && builder->error == 0; i++)
        if (samples->heaps[i].count > 0)
            make_dump(builder, &samples->heaps[i]);
}

/* --- samples --- */

struct sample_entry {
    struct proto_span task, callstack, counter; /* .at == NULL: by id */
    uint64_t task_iid, callstack_iid, counter_iid, weight;
};

#define SAMPLE(name, member) PROTO_MEMBER(PB_STACK_SAMPLE_##name, struct sample_entry, member)

static const struct proto_member sample_members[] = {
    SAMPLE(TASK_CONTEXT, task),          SAMPLE(TASK_CONTEXT_IID, task_iid),
    SAMPLE(CALLSTACK, callstack),        SAMPLE(CALLSTACK_IID, callstack_iid),
    SAMPLE(PRIMARY_DESCRIPTOR, counter), SAMPLE(PRIMARY_DESCRIPTOR_IID, counter_iid),
    SAMPLE(PRIMARY_WEIGHT, weight),
};

/* Return the sample's counter; NULL: the trace does not have it, or an error in *code. */
static const struct stack_counter *counter_of(struct builder *builder,
                                              const struct builder_sequence *sequence,
                                              const struct sample_entry *entry, int *code)
{
    const struct sequence_stacks *stacks = known_stacks(sequence);
    uint32_t index = stacks->counter == 0 ? ID_MAP_NONE : stacks->counter - 1;
    *code = 0;
    if (entry->counter.at != NULL)
        index = add_counter(builder, entry->counter, code);
    else if (entry->counter_iid != 0)
        index = id_map_find(&stacks->counters, entry->counter_iid);
    return *code < 0 || index == ID_MAP_NONE ? NULL : &builder->stack_samples->counters[index];
}

static bool counts_bytes(const struct builder *builder, const struct stack_counter *counter)
{
    const char *name = builder->strings[counter->unit_name];
    return counter->unit == UNIT_BYTES || strcmp(name, "bytes") == 0 || strcmp(name, "B") == 0;
}

static int task_of(struct stack_task *task, const struct builder *builder,
                   const struct builder_sequence *sequence, const struct sample_entry *entry)
{
    *task = (struct stack_task){0};
    if (entry->task.at != NULL)
        return read_task(task, entry->task);
    uint32_t index = id_map_find(&known_stacks(sequence)->tasks, entry->task_iid);
    if (index != ID_MAP_NONE)
        *task = builder->stack_samples->tasks[index];
    return 0;
}

/* Return the callsite of a stack. One in the sample itself is interned like others, without id. */
static uint32_t callsite_of(struct builder *builder, struct builder_sequence *sequence,
                            const struct sample_entry *entry, int *code)
{
    *code = entry->callstack.at == NULL
                ? 0
                : builder_intern(builder, sequence, INTERNED_CALLSTACK, entry->callstack);
    uint64_t iid = entry->callstack.at == NULL ? entry->callstack_iid : 0;
    return *code < 0 ? PROFILE_NONE : builder_resolve(builder, sequence, iid);
}

static struct stack_heap *heap_of(struct builder *builder, const struct builder_sequence *sequence,
                                  int32_t pid, uint32_t name)
{
    struct builder_stack_samples *samples = builder->stack_samples;
    const uint64_t key[] = {(uint64_t)(sequence - builder->sequences), (uint32_t)pid, name,
                            known_stacks(sequence)->source};
    bool added;
    uint64_t id = intern_bytes(&samples->heap_ids, key, sizeof(key), &added);
    if (id == 0 || (added && ARRAY_RESERVE(&samples->heaps, &samples->heap_capacity,
                                           samples->heap_count, 1) < 0)) {
        builder_fail(builder);
        return NULL;
    }
    if (added)
        samples->heaps[samples->heap_count++] = (struct stack_heap){
            .sequence = (uint32_t)(sequence - builder->sequences),
            .name = name,
            .source = known_stacks(sequence)->source,
            .pid = pid,
            .heap = PROFILE_NONE,
            .is_chromiums =
                strcmp(builder->strings[known_stacks(sequence)->source], CHROMIUM_SOURCE) == 0,
        };
    return &samples->heaps[id - 1];
}

static uint64_t greatest_divisor(uint64_t one, uint64_t other)
{
    while (other != 0) {
        uint64_t rest = one % other;
        one = other;
        other = rest;
    }
    return one;
}

int builder_stack_sample(struct builder *builder, struct builder_sequence *sequence,
                         struct proto_span message, uint64_t packet_ns)
{
    struct sample_entry entry = {0};
    struct stack_task task;
    int code;
    /* The trace processor has no heap profile of these. */
    if (builder->as_in_trace)
        return 0;
    if (proto_read_members(PROTO_MEMBERS(sample_members), message, &entry) < 0)
        return -EBADMSG;
    const struct stack_counter *found = counter_of(builder, sequence, &entry, &code);
    if (found == NULL || !counts_bytes(builder, found))
        return code;
    struct stack_counter counter = *found;
    if (task_of(&task, builder, sequence, &entry) < 0)
        return -EBADMSG;
    uint32_t callsite = callsite_of(builder, sequence, &entry, &code);
    struct stack_heap *stacks = code < 0 || builder_keep(builder, 1) < 0
                                    ? NULL
                                    : heap_of(builder, sequence, task.pid, counter.name);
    if (stacks == NULL)
        return code < 0 ? code : builder->error;
    if (stacks->is_chromiums && stacks->count > 0 && stacks->last_ns != packet_ns &&
        make_dump(builder, stacks) < 0)
        return builder->error;
    if (stacks->heap == PROFILE_NONE && stacks->count == 0)
        stacks->first_ns = packet_ns;
    stacks->last_ns = packet_ns;
    stacks->unit_bytes = greatest_divisor(stacks->unit_bytes, entry.weight);
    const struct stack_entry added = {
        .callsite = callsite,
        .tid = task.tid,
        .samples = 1,
        .bytes = (double)entry.weight * (double)counter.multiplier,
    };
    if (ARRAY_ADD(&stacks->entries, &stacks->count, &stacks->capacity, added) < 0)
        return builder_fail(builder);
    return 0;
}
