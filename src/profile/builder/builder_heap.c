/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read ProfilePackets. Samples wait in their sequence until the last packet of the snapshot: only
 * then is all of their interned data available.
 */
#include <math.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "profile/rollup.h"
#include "util/array.h"

/* --- figures --- */

static void take_figure(struct trace_figures *figures, const struct proto_field *field)
{
    switch (field->number) {
    case PB_HEAP_FIGURES_ALLOCATED_BYTES:
        figures->allocated_bytes = proto_double(field);
        break;
    case PB_HEAP_FIGURES_FREED_BYTES:
        figures->freed_bytes = proto_double(field);
        break;
    case PB_HEAP_FIGURES_ALLOCATED_COUNT:
        figures->allocated_count = proto_double(field);
        break;
    case PB_HEAP_FIGURES_FREED_COUNT:
        figures->freed_count = proto_double(field);
        break;
    case PB_HEAP_FIGURES_ALLOCATED_BYTES_VARIANCE:
        figures->allocated_bytes_variance = proto_double(field);
        break;
    case PB_HEAP_FIGURES_FREED_BYTES_VARIANCE:
        figures->freed_bytes_variance = proto_double(field);
        break;
    case PB_HEAP_FIGURES_ALLOCATED_COUNT_VARIANCE:
        figures->allocated_count_variance = proto_double(field);
        break;
    case PB_HEAP_FIGURES_FREED_COUNT_VARIANCE:
        figures->freed_count_variance = proto_double(field);
        break;
    case PB_HEAP_FIGURES_SAMPLES:
        figures->samples = field->value;
        break;
    case PB_HEAP_FIGURES_FREED_SAMPLES:
        figures->freed_samples = field->value;
        break;
    case PB_HEAP_FIGURES_TEMPORARY_BYTES:
        figures->temporary_bytes = proto_double(field);
        break;
    case PB_HEAP_FIGURES_TEMPORARY_COUNT:
        figures->temporary_count = proto_double(field);
        break;
    case PB_HEAP_FIGURES_LIFETIME_MS_SUM:
        figures->lifetime_ms_sum = proto_double(field);
        break;
    }
}

static int take_figures(struct trace_figures *figures, struct proto_span span)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&span, &field)) > 0)
        take_figure(figures, &field);
    return status;
}

/* Estimate the variance of n samples that represent `bytes` in total, assuming equal sizes. With e
 * = s/p bytes each, s follows from p = 1 - exp(-s/T), and the variance is n e^2 (1-p). */
static double estimate_variance(double bytes, double samples, uint64_t interval)
{
    if (samples <= 0 || bytes <= 0 || interval <= 1)
        return 0;
    double each = bytes / samples, size = each;
    /* A sample represents at least the interval: these samples have the smallest possible size. */
    if (each <= (double)interval)
        return samples * each * each;
    for (int i = 0; i < 30; i++)
        size = each * -expm1(-size / (double)interval);
    return samples * each * each * exp(-size / (double)interval);
}

/* Convert a count. A hostile trace may count to 2^64 and beyond, which exceeds uint64_t. */
static uint64_t whole(double count)
{
    return count < 0x1p63 ? (uint64_t)count : UINT64_C(1) << 63;
}

void builder_estimate_figures(struct trace_figures *figures, uint64_t interval)
{
    figures->samples = whole(figures->allocated_count);
    figures->freed_samples = whole(figures->freed_count);
    figures->allocated_bytes_variance =
        estimate_variance(figures->allocated_bytes, figures->allocated_count, interval);
    figures->freed_bytes_variance =
        estimate_variance(figures->freed_bytes, figures->freed_count, interval);
    if (figures->freed_bytes_variance > figures->allocated_bytes_variance)
        figures->freed_bytes_variance = figures->allocated_bytes_variance;
}

/* Set the number of samples if the file omits it: without variance every allocation was sampled. */
static void fill_peak_samples(struct trace_peak_figures *peak)
{
    if (peak->count_variance == 0)
        peak->samples = peak->count;
}

/* --- taking samples --- */

static int take_part_field(struct profile_part *part, struct pending_tag *tag,
                           const struct proto_field *field, bool *has_figures)
{
    switch (field->number) {
    case PB_HEAP_THREAD_FIGURES_TID:
        part->tid = (int32_t)field->value;
        break;
    case PB_HEAP_THREAD_FIGURES_FIGURES:
        *has_figures = true;
        return take_figures(&part->figures, field->span);
    case PB_HEAP_THREAD_FIGURES_TYPE_ID:
        tag->type = field->value;
        break;
    case PB_HEAP_THREAD_FIGURES_CONTEXT_ID:
        tag->context = field->value;
        break;
    case PB_HEAP_THREAD_FIGURES_PEAK_BYTES:
        part->peak.bytes = proto_double(field);
        break;
    case PB_HEAP_THREAD_FIGURES_PEAK_COUNT:
        part->peak.count = proto_double(field);
        break;
    case PB_HEAP_THREAD_FIGURES_PEAK_BYTES_VARIANCE:
        part->peak.bytes_variance = proto_double(field);
        break;
    case PB_HEAP_THREAD_FIGURES_PEAK_COUNT_VARIANCE:
        part->peak.count_variance = proto_double(field);
        break;
    case PB_HEAP_THREAD_FIGURES_PEAK_SAMPLES:
        part->peak.samples = (double)field->value;
        break;
    }
    return 0;
}

/* Read one more part of a sample. */
static int take_part(struct builder *builder, struct pending_dump *dump, struct proto_span entry,
                     struct profile_sample *sample, bool *has_figures)
{
    struct profile_part part = {0};
    struct pending_tag tag = {0};
    struct proto_field field;
    int status;
    *has_figures = false;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (take_part_field(&part, &tag, &field, has_figures) < 0)
            return -EBADMSG;
    }
    if (status < 0)
        return -EBADMSG;
    if (array_reserve(&dump->parts, &dump->part_capacity, dump->part_count, 1, sizeof(part)) < 0 ||
        array_reserve(&dump->tags, &dump->tag_capacity, dump->part_count, 1, sizeof(tag)) < 0)
        return builder_fail(builder);
    fill_peak_samples(&part.peak);
    dump->tags[dump->part_count] = tag;
    dump->parts[dump->part_count++] = part;
    sample->part_count++;
    sample->tagged |= tag.type != 0 || tag.context != 0;
    return 0;
}

int builder_put_sample(struct builder *builder, struct pending_dump *dump,
                       const struct pending_origin *origin, const struct profile_sample *sample)
{
    if (array_reserve(&dump->samples, &dump->sample_capacity, dump->sample_count, 1,
                      sizeof(*sample)) < 0 ||
        array_reserve(&dump->origins, &dump->origin_capacity, dump->sample_count, 1,
                      sizeof(*origin)) < 0)
        return builder_fail(builder);
    dump->origins[dump->sample_count] = *origin;
    if (origin->known == NULL)
        dump->samples[dump->sample_count] = *sample;
    dump->sample_count++;
    return builder_keep(builder, 1);
}

/* Read parts that did not fit into their sample: they become a sample without other figures. */
static int take_more(struct builder *builder, struct pending_dump *dump, struct proto_span entry)
{
    struct profile_sample sample = {0};
    struct proto_field field;
    struct pending_origin origin = {.part_first = dump->part_count};
    bool has_figures;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&entry, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_HEAP_MORE_FIGURES_CALLSTACK_ID)
            origin.callstack = field.value;
        else if (field.number == PB_HEAP_MORE_FIGURES_THREADS)
            code = take_part(builder, dump, field.span, &sample, &has_figures);
    }
    return code < 0 ? code : builder_put_sample(builder, dump, &origin, &sample);
}

/* Copy the sample's figures to its part: a single part without figures is the whole sample. */
static void take_whole(struct pending_dump *dump, const struct profile_sample *sample)
{
    struct profile_part *part = &dump->parts[dump->part_count - 1];
    part->figures = sample->figures;
    part->peak = sample->peak;
}

int builder_read_sample(struct builder *builder, struct pending_dump *dump, struct proto_span entry,
                        struct profile_sample *sample, uint64_t *callstack,
                        enum builder_sample_kind *kind)
{
    struct proto_span estimate = {0};
    struct proto_field field;
    uint64_t max = 0, max_count = 0;
    bool at_max = false, part_has_figures = true;
    int status, code = 0;
    *sample = (struct profile_sample){0};
    *callstack = 0;
    while (code == 0 && (status = proto_next(&entry, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        switch (field.number) {
        case PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID:
            *callstack = field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_ALLOCATED:
            sample->figures.allocated_bytes = (double)field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_FREED:
            sample->figures.freed_bytes = (double)field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_ALLOC_COUNT:
            sample->figures.allocated_count = (double)field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_FREE_COUNT:
            sample->figures.freed_count = (double)field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_MAX:
            max = field.value;
            at_max = true;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_MAX_COUNT:
            max_count = field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_ESTIMATE:
            estimate = field.span;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_PEAK_BYTES:
            sample->peak.bytes = proto_double(&field);
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_PEAK_COUNT:
            sample->peak.count = proto_double(&field);
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_PEAK_BYTES_VARIANCE:
            sample->peak.bytes_variance = proto_double(&field);
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_PEAK_COUNT_VARIANCE:
            sample->peak.count_variance = proto_double(&field);
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_PEAK_SAMPLES:
            sample->peak.samples = (double)field.value;
            break;
        case PB_PROFILE_PACKET_HEAP_SAMPLE_THREADS:
            code = take_part(builder, dump, field.span, sample, &part_has_figures);
            break;
        }
    }
    if (code < 0)
        return code;
    if (at_max) {
        dump->status.dump_at_max = true;
        if (sample->peak.bytes == 0) {
            sample->peak.bytes = (double)max;
            sample->peak.count = (double)max_count;
        }
        if (estimate.at == NULL) {
            sample->figures.allocated_bytes = (double)max;
            sample->figures.allocated_count = (double)max_count;
        }
    }
    if (estimate.at == NULL) {
        /* Only Perfetto's recorder writes no estimates. */
        builder->profile->heaps[dump->heap].is_perfettos = true;
        builder_estimate_figures(&sample->figures, dump->status.interval_bytes);
        if (at_max)
            sample->peak.bytes_variance = sample->figures.allocated_bytes_variance;
    } else if (take_figures(&sample->figures, estimate) < 0) {
        return -EBADMSG;
    }
    fill_peak_samples(&sample->peak);
    if (sample->part_count == 1 && !part_has_figures)
        take_whole(dump, sample);
    *kind = SAMPLE_OF_PEAK;
    if (!at_max && estimate.at != NULL)
        *kind = SAMPLE_OF_ITS_BYTES;
    else if (!at_max && sample->part_count == 0)
        *kind = SAMPLE_OF_COUNTERS;
    return 0;
}

static int take_sample(struct builder *builder, struct builder_sequence *sequence,
                       struct pending_dump *dump, struct proto_span entry)
{
    struct pending_origin origin = {0};
    struct profile_sample sample;
    enum builder_sample_kind kind;
    int code = builder_take_unchanged(builder, sequence, dump, entry, &origin);
    if (code != 0)
        return code < 0 ? code : 0;
    uint64_t kept_callstack = origin.callstack; /* the callstack that the kept bytes belong to */
    origin.part_first = dump->part_count;
    code = builder_read_sample(builder, dump, entry, &sample, &origin.callstack, &kind);
    if (code < 0)
        return code;
    /* Such bytes do not determine the sample: a later dump must read them again. */
    if (kind != SAMPLE_OF_ITS_BYTES || origin.callstack != kept_callstack)
        origin.kept = 0;
    origin.is_counted = kind == SAMPLE_OF_COUNTERS;
    return builder_put_sample(builder, dump, &origin, &sample);
}

/* --- heads --- */

/* Perfetto's name of a heap without a name in the trace: malloc's heap on Android 10. */
#define UNNAMED_HEAP "unknown"

static int take_lost(struct trace_heap_dump *status, const struct proto_field *field)
{
    struct proto_span span = field->span;
    uint64_t value;
    size_t count = 0;
    if (field->type != PROTO_BYTES)
        return 0;
    memset(status->lost, 0, sizeof(status->lost));
    while (span.at < span.end && count < TRACE_LOST_PLACES) {
        if (!proto_read_varint(&span, &value))
            return -EBADMSG;
        status->lost[count++] = value;
    }
    return 0;
}

/* Read the places. Their mappings stay ids until the dump is made. */
static int take_places(struct builder *builder, struct trace_heap_dump *status,
                       struct proto_span span)
{
    const size_t most = proto_length(span) / 3;
    struct trace_place *places = builder_memory(builder, (most + 1) * sizeof(*places));
    if (places == NULL)
        return builder->error;
    status->places = places;
    status->place_count = 0;
    while (span.at < span.end) {
        struct trace_place *place = &places[status->place_count];
        if (!proto_read_varint(&span, &place->mapping) ||
            !proto_read_varint(&span, &place->start) || !proto_read_varint(&span, &place->end))
            return -EBADMSG;
        status->place_count++;
    }
    return 0;
}

static int take_stats(struct trace_heap_dump *status, struct proto_span stats)
{
    struct proto_field field;
    int code;
    while ((code = proto_next(&stats, &field)) > 0) {
        switch (field.number) {
        case PB_PROFILE_PACKET_PROCESS_STATS_UNWINDING_ERRORS:
            status->unwinding_errors = field.value;
            break;
        case PB_PROFILE_PACKET_PROCESS_STATS_HEAP_SAMPLES:
            status->heap_samples = field.value;
            break;
        case PB_PROFILE_PACKET_PROCESS_STATS_MAP_REPARSES:
            status->map_reparses = field.value;
            break;
        case PB_PROFILE_PACKET_PROCESS_STATS_TOTAL_UNWINDING_TIME_US:
            status->unwinding_time_us = field.value;
            break;
        case PB_PROFILE_PACKET_PROCESS_STATS_CLIENT_SPINLOCK_BLOCKED_US:
            status->blocked_us = field.value;
            break;
        }
    }
    return code;
}

#define HEAD(name) PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_##name

static int take_head_field(struct builder *builder, struct trace_heap_dump *status,
                           const struct proto_field *field)
{
    uint64_t value = field->value;
    switch (field->number) {
    case HEAD(PID):
        status->pid = (int32_t)value;
        break;
    case HEAD(FROM_STARTUP):
        status->from_startup = value != 0;
        break;
    case HEAD(REJECTED_CONCURRENT):
        status->rejected_concurrent = value != 0;
        break;
    case HEAD(DISCONNECTED):
        status->disconnected = value != 0;
        break;
    case HEAD(BUFFER_OVERRAN):
        status->buffer_overran = value != 0;
        break;
    case HEAD(CLIENT_ERROR):
        status->client_error = (uint32_t)value;
        break;
    case HEAD(BUFFER_CORRUPTED):
        status->buffer_corrupted = value != 0;
        break;
    case HEAD(HIT_GUARDRAIL):
        status->hit_guardrail = value != 0;
        break;
    case HEAD(HEAP_NAME):
        status->heap_name = builder_text_of_span(builder, field->span);
        break;
    case HEAD(SAMPLING_INTERVAL_BYTES):
        status->interval_bytes = value;
        break;
    case HEAD(ORIG_SAMPLING_INTERVAL_BYTES):
        status->first_interval_bytes = value;
        break;
    case HEAD(TIMESTAMP):
        status->timestamp_ns = value;
        break;
    case HEAD(START_TIMESTAMP):
        status->start_timestamp_ns = value;
        break;
    case HEAD(STATS):
        return take_stats(status, field->span);
    case HEAD(EXACT_BYTES):
        status->exact_bytes = value;
        break;
    case HEAD(EXACT_CALLS):
        status->exact_calls = value;
        status->has_exact_calls = true;
        break;
    case HEAD(UNSENT_RING_BYTES):
        status->unsent_bytes_of_ring = value;
        break;
    case HEAD(LOST):
        return take_lost(status, field);
    case HEAD(PLACES):
        return field->type == PROTO_BYTES ? take_places(builder, status, field->span) : 0;
    case HEAD(PEAK_LIVE_BYTES):
        status->peak_live_bytes = proto_double(field);
        break;
    case HEAD(PEAK_LIVE_COUNT):
        status->peak_live_count = proto_double(field);
        break;
    case HEAD(PEAK_TIMESTAMP):
        status->peak_timestamp_ns = value;
        break;
    case HEAD(ALLOCATOR):
        status->allocator = builder_text_of_span(builder, field->span);
        break;
    case HEAD(EXIT_STATUS):
        status->exit_status = (int32_t)value;
        break;
    case HEAD(REMARK):
        status->remark = builder_text_of_span(builder, field->span);
        break;
    case HEAD(FINAL):
        status->final = value != 0;
        break;
    case HEAD(OTHER_TYPES):
        status->other_types = value;
        break;
    case HEAD(WEIGHED_SAMPLES):
        status->weighed_samples = value;
        break;
    case HEAD(UNSEEN_ALLOCATOR):
        status->unseen_allocator = builder_text_of_span(builder, field->span);
        break;
    case HEAD(OTHER_CONTEXTS):
        status->other_contexts = value;
        break;
    case HEAD(DUMP_AT_MAX):
        status->dump_at_max = value != 0;
        break;
    }
    return 0;
}

/* Return whether a dump continues a heap of the same pid and name. A dump covers the time since the
 * previous dump, or since the heap began. After an exec, the same pid starts anew. */
static bool continues_heap(const struct builder_heap *heap, const struct trace_heap_dump *status)
{
    if (status->timestamp_ns == heap->timestamp_ns &&
        status->start_timestamp_ns == heap->start_timestamp_ns)
        return true;
    return !heap->final && status->start_timestamp_ns <= heap->timestamp_ns;
}

static uint32_t find_heap(struct builder *builder, const struct trace_heap_dump *status)
{
    struct profile *profile = builder->profile;
    uint64_t key[] = {(uint64_t)status->pid, (uint64_t)(uintptr_t)status->heap_name,
                      status->start_timestamp_ns};
    uint64_t id = intern_find(&builder->heap_ids, key, sizeof(key));
    if (id != 0)
        return (uint32_t)(id - 1);
    uint64_t name = (uint64_t)(uint32_t)status->pid << 32 |
                    builder_string(builder, status->heap_name, strlen(status->heap_name));
    uint32_t newest = id_map_find(&builder->newest_heaps, name);
    if (newest != ID_MAP_NONE && continues_heap(&builder->heaps[newest], status))
        return newest;
    size_t used = profile->heap_count;
    bool added;
    id = intern_bytes(&builder->heap_ids, key, sizeof(key), &added);
    uint32_t process = builder_process(builder, status->pid);
    if (id == 0 || process == PROFILE_NONE ||
        array_reserve(&profile->heaps, &builder->heap_capacity, used, 1, sizeof(*profile->heaps)) <
            0 ||
        array_reserve(&builder->dump_capacities, &builder->dump_capacity_capacity, used, 1,
                      sizeof(size_t)) < 0 ||
        array_reserve(&builder->heaps, &builder->heaps_capacity, builder->heap_count,
                      used + 1 - builder->heap_count, sizeof(*builder->heaps)) < 0 ||
        id_map_set(&builder->newest_heaps, name, (uint32_t)used) < 0) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    profile->heaps[used] = (struct profile_heap){
        .process = process,
        .name = status->heap_name,
    };
    builder->dump_capacities[used] = 0;
    while (builder->heap_count <= used)
        builder->heaps[builder->heap_count++] = (struct builder_heap){0};
    profile->heap_count++;
    return (uint32_t)used;
}

/* Note the process of a dump. If processes have separate mappings, the same bytes mean different
 * callsites in each process. */
static void note_pid(struct builder *builder, struct builder_sequence *sequence, int32_t pid)
{
    if (!sequence->has_pid) {
        sequence->has_pid = true;
        sequence->first_pid = pid;
    } else if (pid != sequence->first_pid && !sequence->has_several_pids) {
        sequence->has_several_pids = true;
        if (builder->owner->as_in_trace)
            builder_forget_unchanged(builder, sequence);
    }
}

/* Below this number a linear search is used. */
#define FEW_PENDING 16u

static uint64_t number_pending(struct builder *builder, struct builder_sequence *sequence,
                               uint32_t heap, uint64_t timestamp_ns)
{
    bool added;
    uint64_t key[] = {heap, timestamp_ns};
    uint64_t id = intern_bytes(&sequence->pending_ids, key, sizeof(key), &added);
    if (id == 0)
        builder_fail(builder);
    return id;
}

/* Return the pending dump of a heap and time. NULL: the next one will be it, or there is an error
 * in builder->error. If there are many, a table maps heap and time to the dump's position, from 1.
 */
static struct pending_dump *known_pending(struct builder *builder,
                                          struct builder_sequence *sequence, uint32_t heap,
                                          uint64_t timestamp_ns)
{
    if (sequence->pending_count < FEW_PENDING) {
        for (size_t i = 0; i < sequence->pending_count; i++)
            if (sequence->pending[i].heap == heap &&
                sequence->pending[i].timestamp_ns == timestamp_ns)
                return &sequence->pending[i];
        return NULL;
    }
    for (size_t i = sequence->pending_ids.count; i < sequence->pending_count; i++)
        if (number_pending(builder, sequence, sequence->pending[i].heap,
                           sequence->pending[i].timestamp_ns) == 0)
            return NULL;
    uint64_t id = number_pending(builder, sequence, heap, timestamp_ns);
    return id == 0 || id > sequence->pending_count ? NULL : &sequence->pending[id - 1];
}

static struct pending_dump *find_pending(struct builder *builder, struct builder_sequence *sequence,
                                         const struct trace_heap_dump *status, uint64_t packet_ns)
{
    uint32_t heap = find_heap(builder, status);
    if (heap == PROFILE_NONE)
        return NULL;
    struct builder_heap *state = &builder->heaps[heap];
    state->timestamp_ns = status->timestamp_ns;
    state->start_timestamp_ns = status->start_timestamp_ns;
    state->final |= status->final;
    note_pid(builder, sequence, status->pid);
    builder->profile->heaps[heap].packet_boottime_ns = packet_ns;
    builder_meet(builder, status->pid, 0, packet_ns);
    builder_date(builder, DATED_HEAP, heap, 0);
    struct pending_dump *known = known_pending(builder, sequence, heap, status->timestamp_ns);
    if (known != NULL || builder_keep(builder, 1) < 0)
        return known;
    if (array_reserve(&sequence->pending, &sequence->pending_capacity, sequence->pending_count, 1,
                      sizeof(*sequence->pending)) < 0) {
        builder_fail(builder);
        return NULL;
    }
    struct pending_dump *dump = &sequence->pending[sequence->pending_count++];
    *dump = sequence->spare; /* reuse its empty arrays */
    sequence->spare = (struct pending_dump){0};
    dump->heap = heap;
    dump->timestamp_ns = status->timestamp_ns;
    dump->status = *status;
    dump->steady = state->steady && !(builder->owner->as_in_trace && sequence->has_several_pids);
    return dump;
}

static void add_packet(struct profile_packet_sums *sums, const struct trace_heap_dump *status)
{
    sums->corrupted += status->buffer_corrupted;
    sums->hit_guardrail += status->hit_guardrail;
    sums->overran += status->buffer_overran || status->client_error == TRACE_CLIENT_TIMED_OUT;
    sums->disconnected += status->disconnected;
    sums->rejected += status->rejected_concurrent;
    sums->unwinding_time_us += status->unwinding_time_us;
    sums->samples += status->heap_samples;
    sums->blocked_us += status->blocked_us;
}

static int take_process_dump(struct builder *builder, struct builder_sequence *sequence,
                             struct proto_span entry, uint64_t packet_ns)
{
    struct trace_heap_dump status = {.exit_status = -1};
    struct proto_span again = entry;
    struct proto_field field;
    int code;
    while ((code = proto_next(&entry, &field)) > 0) {
        if (field.number != HEAD(SAMPLES) && take_head_field(builder, &status, &field) < 0)
            return -EBADMSG;
    }
    if (code < 0)
        return -EBADMSG;
    bool unnamed = status.heap_name == NULL || *status.heap_name == '\0';
    if (unnamed)
        status.heap_name = builder_text(builder, UNNAMED_HEAP, strlen(UNNAMED_HEAP));
    struct pending_dump *dump = find_pending(builder, sequence, &status, packet_ns);
    if (dump == NULL)
        return builder->error;
    builder->profile->heaps[dump->heap].unnamed |= unnamed;
    add_packet(&builder->profile->heaps[dump->heap].packet_sums, &status);
    code = 0;
    while (code == 0 && proto_next(&again, &field) > 0) {
        if (field.number == HEAD(SAMPLES) && field.type == PROTO_BYTES)
            code = take_sample(builder, sequence, dump, field.span);
        else if (field.number == HEAD(MORE) && field.type == PROTO_BYTES)
            code = take_more(builder, dump, field.span);
    }
    return code;
}

static int take_profile_field(struct builder *builder, struct builder_sequence *sequence,
                              const struct proto_field *field, uint64_t packet_ns)
{
    switch (field->type == PROTO_BYTES ? field->number : 0) {
    case PB_PROFILE_PACKET_STRINGS:
        return builder_intern(builder, sequence, INTERNED_ANY_STRING, field->span);
    case PB_PROFILE_PACKET_MAPPINGS:
        return builder_intern(builder, sequence, INTERNED_PROFILE_MAPPING, field->span);
    case PB_PROFILE_PACKET_FRAMES:
        return builder_intern(builder, sequence, INTERNED_PROFILE_FRAME, field->span);
    case PB_PROFILE_PACKET_CALLSTACKS:
        return builder_intern(builder, sequence, INTERNED_CALLSTACK, field->span);
    case PB_PROFILE_PACKET_PROCESS_DUMPS:
        return take_process_dump(builder, sequence, field->span, packet_ns);
    }
    return 0;
}

int builder_profile_packet(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span packet, uint64_t packet_ns)
{
    struct proto_span again = packet;
    struct proto_field field;
    uint64_t index = 0;
    bool continued = false, has_index = false;
    int status = 0, code = 0;
    while (builder->error == 0 && (status = proto_next(&packet, &field)) > 0) {
        if (field.number == PB_PROFILE_PACKET_CONTINUED) {
            continued = field.value != 0;
        } else if (field.number == PB_PROFILE_PACKET_INDEX) {
            index = field.value;
            has_index = true;
        } else {
            int result = take_profile_field(builder, sequence, &field, packet_ns);
            code = code == 0 ? result : code;
        }
    }
    if (has_index && sequence->index_known && index > sequence->next_index) {
        builder->missing_packets += index - sequence->next_index;
        sequence->gap = true;
    }
    if (has_index) {
        sequence->index_known = true;
        sequence->next_index = index + 1;
    }
    if (builder->owner->as_in_trace)
        builder_resolve_tables(builder, sequence, again);
    if (!continued)
        builder_commit(builder, sequence);
    return status < 0 ? -EBADMSG : code;
}
