/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read StackSamples that are counted in bytes, as heaps named after their counters. Samples of
 * other counters (time, cycles) belong to no heap profile. All samples are rows of SQL
 * (builder_stack_rows.c).
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
#include "profile/builder/builder_stack_samples.h"
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

void builder_stack_free(struct builder_stack_samples *samples)
{
    if (samples == NULL)
        return;
    for (size_t i = 0; i < samples->heap_count; i++)
        free(samples->heaps[i].entries);
    intern_free(&samples->heap_ids);
    free(samples->heaps);
    intern_free(&samples->counter_ids);
    free(samples->counters);
    free(samples->tasks);
    free(samples->executions);
    stack_rows_free(samples->rows);
    free(samples);
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

#define SAMPLE(name, member) PROTO_MEMBER(PB_STACK_SAMPLE_##name, struct stack_sample, member)

static int read_sample(struct stack_sample *sample, struct proto_span message)
{
    static const struct proto_member members[] = {
        SAMPLE(TASK_CONTEXT, task),           SAMPLE(TASK_CONTEXT_IID, task_iid),
        SAMPLE(EXECUTION_CONTEXT, execution), SAMPLE(EXECUTION_CONTEXT_IID, execution_iid),
        SAMPLE(CALLSTACK, callstack),         SAMPLE(CALLSTACK_IID, callstack_iid),
        SAMPLE(PRIMARY_DESCRIPTOR, counter),  SAMPLE(PRIMARY_DESCRIPTOR_IID, counter_iid),
        SAMPLE(PRIMARY_WEIGHT, weight),
    };
    struct proto_field field;
    int status;
    *sample = (struct stack_sample){.message = message};
    while ((status = proto_next(&message, &field)) > 0) {
        proto_store(PROTO_MEMBERS(members), &field, sample);
        sample->has_weight |= field.number == PB_STACK_SAMPLE_PRIMARY_WEIGHT;
    }
    return status < 0 ? -EBADMSG : 0;
}

static bool counts_bytes(const struct builder *builder, const struct stack_counter *counter)
{
    const char *name = builder->strings[counter->unit_name];
    return counter->unit == UNIT_BYTES || strcmp(name, "bytes") == 0 || strcmp(name, "B") == 0;
}

/* Return the callsite of a stack. Ids of frames in the sample itself are interned like others,
 * without an id. */
static uint32_t callsite_of(struct builder *builder, struct builder_sequence *sequence,
                            const struct stack_sample *sample, int *code)
{
    struct proto_span inside = sample->callstack;
    uint32_t callsite = PROFILE_NONE;
    *code = 0;
    if (inside.at == NULL)
        return builder_resolve(builder, sequence, sample->callstack_iid);
    if (!stack_has_frame_ids(inside))
        callsite = stack_inline_callsite(builder, inside, code);
    else
        *code = builder_intern(builder, sequence, INTERNED_CALLSTACK, inside);
    return *code < 0 || callsite != PROFILE_NONE ? callsite : builder_resolve(builder, sequence, 0);
}

static struct stack_heap *heap_of(struct builder *builder, const struct builder_sequence *sequence,
                                  int32_t pid, uint32_t name)
{
    struct builder_stack_samples *samples = builder->stack_samples;
    const uint64_t key[] = {(uint64_t)(sequence - builder->sequences), (uint32_t)pid, name,
                            stack_known(sequence)->source};
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
            .source = stack_known(sequence)->source,
            .pid = pid,
            .heap = PROFILE_NONE,
            .is_chromiums =
                strcmp(builder->strings[stack_known(sequence)->source], CHROMIUM_SOURCE) == 0,
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

/* Add a sample to its heap. */
static int take_bytes(struct builder *builder, struct builder_sequence *sequence,
                      const struct stack_sample *sample, uint64_t packet_ns)
{
    struct stack_task inside, task = {0};
    int code;
    uint32_t index = stack_counter_of(builder, sequence, sample, &code);
    if (index == PROFILE_NONE || !counts_bytes(builder, &builder->stack_samples->counters[index]))
        return code;
    struct stack_counter counter = builder->stack_samples->counters[index];
    const struct stack_task *found = stack_task_of(builder, sequence, sample, &inside, &code);
    if (found != NULL)
        task = *found;
    uint32_t callsite = code == 0 ? callsite_of(builder, sequence, sample, &code) : PROFILE_NONE;
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
    stacks->unit_bytes = greatest_divisor(stacks->unit_bytes, sample->weight);
    const struct stack_entry added = {
        .callsite = callsite,
        .tid = task.tid,
        .samples = 1,
        .bytes = (double)sample->weight * (double)counter.multiplier,
    };
    if (ARRAY_ADD(&stacks->entries, &stacks->count, &stacks->capacity, added) < 0)
        return builder_fail(builder);
    return 0;
}

int builder_stack_sample(struct builder *builder, struct builder_sequence *sequence,
                         struct proto_span message, uint64_t packet_ns)
{
    struct stack_sample sample;
    if (read_sample(&sample, message) < 0)
        return -EBADMSG;
    /* The trace processor has no heap profile of these. */
    return builder->as_in_trace ? stack_rows_take(builder, sequence, &sample, packet_ns)
                                : take_bytes(builder, sequence, &sample, packet_ns);
}
