/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read ProfilePackets. Samples wait in their sequence until the last packet of the snapshot: only
 * then is all of their interned data available.
 */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_sequence.h"
#include "util/array.h"

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

#define SITE_NUMBERS 5u

/* Read the callsites of malloc's memory. Their callstacks stay ids until the dump is made. */
static int take_sites(struct builder *builder, struct trace_heap_dump *status,
                      struct proto_span span)
{
    struct trace_memory_site *sites =
        builder_memory(builder, TRACE_MEMORY_SITES_MAX * sizeof(*sites));
    if (sites == NULL)
        return builder->error;
    status->sites = sites;
    status->site_count = 0;
    if (!proto_read_varint(&span, &status->piece_bytes))
        return -EBADMSG;
    while (span.at < span.end && status->site_count < TRACE_MEMORY_SITES_MAX) {
        uint64_t numbers[SITE_NUMBERS];
        for (size_t i = 0; i < SITE_NUMBERS; i++)
            if (!proto_read_varint(&span, &numbers[i]) || (i > 0 && numbers[i] > PROFILE_BYTES_MAX))
                return -EBADMSG;
        sites[status->site_count++] =
            (struct trace_memory_site){numbers[0], (double)numbers[1], (double)numbers[2],
                                       (double)numbers[3], (double)numbers[4]};
    }
    return 0;
}

#define HEAD(name) PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_##name
#define HEAD_MEMBER(name, member) PROTO_MEMBER(HEAD(name), struct trace_heap_dump, member)
#define STATS_MEMBER(name, member)                                                                 \
    PROTO_MEMBER(PB_PROFILE_PACKET_PROCESS_STATS_##name, struct trace_heap_dump, member)

static const struct proto_member head_members[] = {
    HEAD_MEMBER(PID, pid),
    HEAD_MEMBER(HEAP_NAME, heap_name),
    HEAD_MEMBER(SAMPLING_INTERVAL_BYTES, interval_bytes),
    HEAD_MEMBER(ORIG_SAMPLING_INTERVAL_BYTES, first_interval_bytes),
    HEAD_MEMBER(TIMESTAMP, timestamp_ns),
    HEAD_MEMBER(START_TIMESTAMP, start_timestamp_ns),
    HEAD_MEMBER(FROM_STARTUP, from_startup),
    HEAD_MEMBER(REJECTED_CONCURRENT, rejected_concurrent),
    HEAD_MEMBER(DISCONNECTED, disconnected),
    HEAD_MEMBER(BUFFER_OVERRAN, buffer_overran),
    HEAD_MEMBER(BUFFER_CORRUPTED, buffer_corrupted),
    HEAD_MEMBER(HIT_GUARDRAIL, hit_guardrail),
    HEAD_MEMBER(CLIENT_ERROR, client_error),
    HEAD_MEMBER(DUMP_AT_MAX, dump_at_max),
    HEAD_MEMBER(FINAL, final),
    HEAD_MEMBER(CAUSE, cause),
    HEAD_MEMBER(CAUSE_USED_BYTES, cause_used_bytes),
    HEAD_MEMBER(CAUSE_LIMIT_BYTES, cause_limit_bytes),
    HEAD_MEMBER(EXACT_BYTES, exact_bytes),
    HEAD_MEMBER(EXACT_CALLS, exact_calls),
    HEAD_MEMBER(SAMPLED_BYTES, sampled_bytes),
    HEAD_MEMBER(SAMPLED_CALLS, sampled_calls),
    HEAD_MEMBER(CALIBRATION_RATIO, calibration_ratio),
    HEAD_MEMBER(IMAGE, image),
    HEAD_MEMBER(PEAK_HIGHEST_BYTES, peak_highest_bytes),
    HEAD_MEMBER(PEAK_HIGHEST_COUNT, peak_highest_count),
    HEAD_MEMBER(UNSENT_RING_BYTES, unsent_bytes_of_ring),
    HEAD_MEMBER(PEAK_LIVE_BYTES, peak_live_bytes),
    HEAD_MEMBER(PEAK_LIVE_COUNT, peak_live_count),
    HEAD_MEMBER(PEAK_TIMESTAMP, peak_timestamp_ns),
    HEAD_MEMBER(ALLOCATOR, allocator),
    HEAD_MEMBER(EXIT_STATUS, exit_status),
    HEAD_MEMBER(REMARK, remark),
    HEAD_MEMBER(OTHER_TYPES, other_types),
    HEAD_MEMBER(OTHER_CONTEXTS, other_contexts),
    HEAD_MEMBER(WEIGHED_SAMPLES, weighed_samples),
    HEAD_MEMBER(MAX_OVERHEAD_PERCENT, max_overhead_percent),
    HEAD_MEMBER(UNSEEN_ALLOCATOR, unseen_allocator),
};

static const struct proto_member stats_members[] = {
    STATS_MEMBER(UNWINDING_ERRORS, unwinding_errors),
    STATS_MEMBER(HEAP_SAMPLES, heap_samples),
    STATS_MEMBER(MAP_REPARSES, map_reparses),
    STATS_MEMBER(TOTAL_UNWINDING_TIME_US, unwinding_time_us),
    STATS_MEMBER(CLIENT_SPINLOCK_BLOCKED_US, blocked_us),
};

static int take_head_field(struct builder *builder, struct trace_heap_dump *status,
                           const struct proto_field *field)
{
    switch (field->number) {
    case HEAD(STATS):
        return proto_read_members(PROTO_MEMBERS(stats_members), field->span, status);
    case HEAD(LOST):
        return take_lost(status, field);
    case HEAD(PLACES):
        return field->type == PROTO_BYTES ? take_places(builder, status, field->span) : 0;
    case HEAD(MEMORY_SITES):
        return field->type == PROTO_BYTES ? take_sites(builder, status, field->span) : 0;
    case HEAD(EXACT_CALLS):
        status->has_exact_calls = true;
        break;
    }
    builder_store(builder, PROTO_MEMBERS(head_members), field, status);
    return 0;
}

/* Return whether a dump continues a heap of the same pid and name. A dump covers the time since the
 * previous dump, or since the heap began. After an exec, the same pid starts anew. If packets were
 * lost, a dump between may be one of them: a heap's counters only grow, and a new one's begin at
 * 0. */
static bool continues_heap(const struct builder *builder, const struct builder_heap *heap,
                           const struct builder_sequence *sequence,
                           const struct trace_heap_dump *status)
{
    bool is_of_sequence = heap->sequence == (size_t)(sequence - builder->sequences);
    if (status->timestamp_ns == heap->timestamp_ns &&
        status->start_timestamp_ns == heap->start_timestamp_ns)
        return true;
    if (heap->final)
        return false;
    if (heap->image != 0 && status->image != 0 && is_of_sequence)
        return heap->image == status->image;
    return status->start_timestamp_ns <= heap->timestamp_ns ||
           (sequence->has_lost && is_of_sequence && status->exact_calls >= heap->exact_calls &&
            status->heap_samples >= heap->heap_samples);
}

/* Return the key of a pid and the first `length` bytes of a heap's name. */
static uint64_t name_key(struct builder *builder, int32_t pid, const char *name, size_t length)
{
    return (uint64_t)builder_pid_key(builder, pid) << 32 | builder_string(builder, name, length);
}

/* The last dump of a program that ended by exec names its heap "libc.malloc (sh, before exec)".
 * Earlier dumps of that heap were called "libc.malloc". Return the heap, which gets the new name;
 * ID_MAP_NONE: the dump continues none. */
static uint32_t find_before_exec(struct builder *builder, const struct trace_heap_dump *status)
{
    const char *program = strstr(status->heap_name, " (");
    if (program == NULL || strstr(program, ", before exec") == NULL || builder->as_in_trace)
        return ID_MAP_NONE;
    uint64_t name =
        name_key(builder, status->pid, status->heap_name, (size_t)(program - status->heap_name));
    uint32_t heap = id_map_find(&builder->newest_heaps, name);
    if (heap == ID_MAP_NONE || builder->heaps[heap].final ||
        builder->heaps[heap].timestamp_ns != status->start_timestamp_ns)
        return ID_MAP_NONE;
    builder->profile->heaps[heap].name = status->heap_name;
    return heap;
}

static uint32_t find_heap(struct builder *builder, const struct builder_sequence *sequence,
                          const struct trace_heap_dump *status)
{
    struct profile *profile = builder->profile;
    uint64_t key[] = {builder_pid_key(builder, status->pid), (uint64_t)(uintptr_t)status->heap_name,
                      status->start_timestamp_ns};
    uint64_t id = intern_find(&builder->heap_ids, key, sizeof(key));
    if (id != 0)
        return (uint32_t)(id - 1);
    uint64_t name = name_key(builder, status->pid, status->heap_name, strlen(status->heap_name));
    uint32_t newest = id_map_find(&builder->newest_heaps, name);
    if (newest != ID_MAP_NONE && continues_heap(builder, &builder->heaps[newest], sequence, status))
        return newest;
    uint32_t renamed = find_before_exec(builder, status);
    if (renamed != ID_MAP_NONE) {
        if (id_map_set(&builder->newest_heaps, name, renamed) < 0)
            builder_fail(builder);
        return renamed;
    }
    size_t used = profile->heap_count;
    bool added;
    id = intern_bytes(&builder->heap_ids, key, sizeof(key), &added);
    uint32_t process = builder_process(builder, status->pid);
    if (id == 0 || process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->heaps, &builder->heap_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->dump_capacities, &builder->dump_capacity_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->heaps, &builder->heaps_capacity, builder->heap_count,
                      used + 1 - builder->heap_count) < 0 ||
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
        if (builder->as_in_trace)
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
    uint32_t heap = find_heap(builder, sequence, status);
    if (heap == PROFILE_NONE)
        return NULL;
    struct builder_heap *state = &builder->heaps[heap];
    state->timestamp_ns = status->timestamp_ns;
    state->start_timestamp_ns = status->start_timestamp_ns;
    state->image = status->image;
    state->exact_calls = status->exact_calls;
    state->heap_samples = status->heap_samples;
    state->sequence = (size_t)(sequence - builder->sequences);
    state->final |= status->final;
    note_pid(builder, sequence, status->pid);
    builder->profile->heaps[heap].packet_boottime_ns = packet_ns;
    builder_mention(builder, status->pid, 0, packet_ns);
    builder_date(builder, DATED_HEAP, heap, 0);
    struct pending_dump *known = known_pending(builder, sequence, heap, status->timestamp_ns);
    if (known != NULL || builder_keep(builder, 1) < 0)
        return known;
    if (ARRAY_RESERVE(&sequence->pending, &sequence->pending_capacity, sequence->pending_count, 1) <
        0) {
        builder_fail(builder);
        return NULL;
    }
    struct pending_dump *dump = &sequence->pending[sequence->pending_count++];
    *dump = (struct pending_dump){0};
    if (builder->spare != NULL) {
        *dump = *builder->spare; /* reuse its empty arrays */
        *builder->spare = (struct pending_dump){0};
    }
    dump->heap = heap;
    dump->timestamp_ns = status->timestamp_ns;
    dump->status = *status;
    dump->steady = state->steady && !(builder->as_in_trace && sequence->has_several_pids);
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
            code = builder_take_sample(builder, sequence, dump, field.span);
        else if (field.number == HEAD(MORE) && field.type == PROTO_BYTES)
            code = builder_take_more(builder, dump, field.span);
    }
    return code;
}

static const struct {
    uint32_t field;
    enum interned_kind kind;
} packet_tables[] = {
    {PB_PROFILE_PACKET_CALLSTACKS, INTERNED_CALLSTACK},
    {PB_PROFILE_PACKET_FRAMES, INTERNED_PROFILE_FRAME},
    {PB_PROFILE_PACKET_STRINGS, INTERNED_ANY_STRING},
    {PB_PROFILE_PACKET_MAPPINGS, INTERNED_PROFILE_MAPPING},
    {PB_PROFILE_PACKET_SOURCE_PATHS, INTERNED_SOURCE_PATH},
    {PB_PROFILE_PACKET_HEAP_NAMES, INTERNED_HEAP_NAME},
    {PB_PROFILE_PACKET_HEAP_CONTEXTS, INTERNED_HEAP_CONTEXT},
};

static int take_profile_field(struct builder *builder, struct builder_sequence *sequence,
                              const struct proto_field *field, uint64_t packet_ns)
{
    if (field->type != PROTO_BYTES)
        return 0;
    if (field->number == PB_PROFILE_PACKET_PROCESS_DUMPS)
        return take_process_dump(builder, sequence, field->span, packet_ns);
    for (size_t i = 0; i < sizeof(packet_tables) / sizeof(packet_tables[0]); i++) {
        if (packet_tables[i].field != field->number)
            continue;
        sequence->has_packet_tables = true;
        return builder_intern(builder, sequence, packet_tables[i].kind, field->span);
    }
    return 0;
}

/* Read the packet's place among those of its sequence, and note what is missing before it. Return
 * whether its snapshot continues in the next one. */
static bool builder_heap_take_place(struct builder *builder, struct builder_sequence *sequence,
                                    struct proto_span packet)
{
    struct proto_field field;
    uint64_t index = 0;
    bool continued = false, has_index = false;
    while (proto_next(&packet, &field) > 0) {
        if (field.number == PB_PROFILE_PACKET_CONTINUED)
            continued = field.value != 0;
        if (field.number != PB_PROFILE_PACKET_INDEX)
            continue;
        index = field.value;
        has_index = true;
    }
    /* Recorders count from 0. */
    if (has_index && index > sequence->next_index) {
        builder->losses.missing_packets += index - sequence->next_index;
        sequence->gap = sequence->has_lost = true;
    }
    if (has_index)
        sequence->next_index = index + 1;
    return continued;
}

int builder_profile_packet(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span packet, uint64_t packet_ns)
{
    struct proto_span again = packet;
    struct proto_field field;
    bool continued = builder_heap_take_place(builder, sequence, packet);
    int status = 0, code = 0;
    while (builder->error == 0 && (status = proto_next(&packet, &field)) > 0) {
        int result = take_profile_field(builder, sequence, &field, packet_ns);
        code = code == 0 ? result : code;
    }
    if (builder->as_in_trace)
        builder_resolve_tables(builder, sequence, again);
    if (!continued)
        builder_commit(builder, sequence);
    return status < 0 ? -EBADMSG : code;
}
