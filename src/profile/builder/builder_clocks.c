/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convert times. A ClockSnapshot may come after the times that it converts. So times stay as in the
 * trace until everything was read. Then the latest snapshot at or before a time converts it to
 * trace time, or else the first snapshot.
 */
#include "profile/builder/builder.h"

#include <stdlib.h>

#include "pb_field_numbers.h"
#include "profile/stack_samples.h"
#include "util/array.h"
#include "util/sorted_search.h"

#define CLOCK_REALTIME_ID 1u
#define CLOCK_MONOTONIC_COARSE_ID 4u
#define CLOCK_BOOTTIME_ID 6u

/* Clocks with these ids belong to one sequence. */
#define SEQUENCE_CLOCK_FIRST 64u
#define SEQUENCE_CLOCK_END 128u

void builder_clocks_free(struct builder_clocks *clocks)
{
    free(clocks->readings);
    free(clocks->kinds);
    free(clocks->late);
    id_map_free(&clocks->kind_ids);
}

static uint64_t clock_key(uint64_t id, uint32_t sequence)
{
    bool own = id >= SEQUENCE_CLOCK_FIRST && id < SEQUENCE_CLOCK_END;
    return (uint32_t)id | (own ? (uint64_t)sequence << 32 : 0);
}

/* --- snapshots --- */

static int keep_kind(struct builder *builder, const struct clock_kind *kind)
{
    struct builder_clocks *clocks = &builder->clocks;
    uint32_t known = id_map_find(&clocks->kind_ids, kind->clock);
    if (known != ID_MAP_NONE) {
        clocks->kinds[known].last_ns = kind->last_ns;
        return 0;
    }
    if (ARRAY_RESERVE(&clocks->kinds, &clocks->kind_capacity, clocks->kind_count, 1) < 0 ||
        id_map_set(&clocks->kind_ids, kind->clock, (uint32_t)clocks->kind_count) < 0)
        return builder_fail(builder);
    clocks->kinds[clocks->kind_count++] = *kind;
    return 0;
}

struct reading_entry {
    uint64_t id, timestamp, unit;
    bool is_incremental;
};

#define READING(name, member)                                                                      \
    PROTO_MEMBER(PB_CLOCK_SNAPSHOT_CLOCK_##name, struct reading_entry, member)
static const struct proto_member reading_members[] = {
    READING(CLOCK_ID, id),
    READING(TIMESTAMP, timestamp),
    READING(IS_INCREMENTAL, is_incremental),
    READING(UNIT_MULTIPLIER_NS, unit),
};

static int take_reading(struct builder *builder, uint32_t sequence, struct proto_span message)
{
    struct builder_clocks *clocks = &builder->clocks;
    struct reading_entry entry = {0};
    if (proto_read_members(PROTO_MEMBERS(reading_members), message, &entry) < 0)
        return -EBADMSG;
    uint64_t unit = entry.unit == 0 ? 1 : entry.unit;
    uint64_t clock = clock_key(entry.id, sequence);
    uint64_t reading_ns = entry.timestamp * unit;
    struct clock_kind kind = {clock, unit, entry.is_incremental, reading_ns};
    if ((unit != 1 || entry.is_incremental) && keep_kind(builder, &kind) < 0)
        return builder->error;
    if (ARRAY_RESERVE(&clocks->readings, &clocks->reading_capacity, clocks->reading_count, 1) < 0)
        return builder_fail(builder);
    clocks->readings[clocks->reading_count++] = (struct clock_reading){
        .clock = clock, .reading_ns = (int64_t)reading_ns, .snapshot = clocks->snapshot_count};
    return 0;
}

int builder_clock_snapshot(struct builder *builder, uint32_t sequence, struct proto_span snapshot)
{
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&snapshot, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_CLOCK_SNAPSHOT_CLOCKS && field.type == PROTO_BYTES)
            code = take_reading(builder, sequence, field.span);
        else if (field.number == PB_CLOCK_SNAPSHOT_PRIMARY_TRACE_CLOCK && field.value != 0)
            builder->clocks.trace_clock = clock_key(field.value, sequence);
    }
    builder->clocks.snapshot_count++;
    return code == 0 ? builder_keep(builder, 1) : code;
}

/* --- times of packets --- */

uint64_t builder_packet_time(struct builder *builder, uint64_t timestamp, uint64_t clock_id,
                             uint32_t sequence)
{
    struct builder_clocks *clocks = &builder->clocks;
    clocks->packet_clock = clock_id == 0 ? 0 : clock_key(clock_id, sequence);
    if (clock_id == 0 && timestamp > builder->mentions.latest_ns)
        builder->mentions.latest_ns = timestamp;
    uint32_t known = clock_id == 0 || clocks->kind_count == 0
                         ? ID_MAP_NONE
                         : id_map_find(&clocks->kind_ids, clocks->packet_clock);
    if (known == ID_MAP_NONE)
        return timestamp;
    struct clock_kind *kind = &clocks->kinds[known];
    timestamp *= kind->unit_ns;
    if (kind->is_incremental)
        timestamp = kind->last_ns += timestamp;
    return timestamp;
}

void builder_date(struct builder *builder, enum dated_kind kind, uint32_t owner, size_t index)
{
    struct builder_clocks *clocks = &builder->clocks;
    if (clocks->packet_clock == 0)
        return;
    if (ARRAY_RESERVE(&clocks->late, &clocks->late_capacity, clocks->late_count, 1) < 0) {
        builder_fail(builder);
        return;
    }
    clocks->late[clocks->late_count++] = (struct dated){
        .kind = kind, .owner = owner, .index = (uint32_t)index, .clock = clocks->packet_clock};
}

/* --- trace time --- */

static int compare_readings(const void *left_pointer, const void *right_pointer)
{
    const struct clock_reading *left = left_pointer, *right = right_pointer;
    if (left->clock != right->clock)
        return left->clock < right->clock ? -1 : 1;
    if (left->reading_ns != right->reading_ns)
        return left->reading_ns < right->reading_ns ? -1 : 1;
    return left->snapshot < right->snapshot ? -1 : left->snapshot > right->snapshot;
}

/* Keep the readings of snapshots that contain the trace's clock, too, and sort them by clock and
 * time. */
static void order_readings(struct builder_clocks *clocks)
{
    struct clock_reading *readings = clocks->readings;
    size_t kept = 0;
    for (size_t first = 0, end; first < clocks->reading_count; first = end) {
        const struct clock_reading *of_trace = NULL;
        for (end = first;
             end < clocks->reading_count && readings[end].snapshot == readings[first].snapshot;
             end++)
            if (readings[end].clock == clocks->trace_clock)
                of_trace = &readings[end];
        if (of_trace == NULL)
            continue;
        int64_t trace_ns = of_trace->reading_ns;
        for (size_t i = first; i < end; i++) {
            readings[kept] = readings[i];
            readings[kept++].trace_ns = trace_ns;
        }
    }
    clocks->reading_count = kept;
    if (kept > 0)
        qsort(readings, kept, sizeof(*readings), compare_readings);
}

/* Convert a time to trace time. Return false if no snapshot has both clocks. */
static bool convert(const struct builder_clocks *clocks, uint64_t clock, uint64_t *time_ns)
{
    const struct clock_reading *readings = clocks->readings;
    struct clock_reading wanted = {
        .clock = clock, .reading_ns = (int64_t)*time_ns, .snapshot = UINT32_MAX};
    if (clock == 0 || clock == clocks->trace_clock)
        return true;
    size_t at =
        SORTED_SEARCH(clocks->reading_count, i, compare_readings(&readings[i], &wanted) <= 0);
    if (at > 0 && readings[at - 1].clock == clock)
        at--;
    else if (at == clocks->reading_count || readings[at].clock != clock)
        return false;
    *time_ns += (uint64_t)readings[at].trace_ns - (uint64_t)readings[at].reading_ns;
    return true;
}

/* --- first mentions of processes and threads --- */

void builder_mentions_free(struct builder_mentions *mentions)
{
    free(mentions->items);
    id_map_free(&mentions->ids);
}

/* Keep the first mention by time. A packet without a time counts as being at the latest time before
 * it. */
void builder_mention(struct builder *builder, int32_t pid, int32_t tid, uint64_t packet_ns)
{
    struct builder_mentions *mentions = &builder->mentions;
    uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
    struct dated_mention mention = {
        .who = {.pid = pid, .tid = tid, .is_thread = tid != 0},
        .time_ns = packet_ns != 0 ? packet_ns : mentions->latest_ns,
        .clock = packet_ns != 0 ? builder->clocks.packet_clock : 0,
        .order = mentions->count,
    };
    if (!builder->as_in_trace)
        return;
    uint32_t known = id_map_find(&mentions->ids, key);
    if (known != ID_MAP_NONE) {
        struct dated_mention *first = &mentions->items[known];
        if (first->clock == mention.clock && mention.time_ns < first->time_ns)
            *first = mention;
        return;
    }
    if (mentions->count >= PROFILE_NONE - 1 ||
        ARRAY_RESERVE(&mentions->items, &mentions->capacity, mentions->count, 1) < 0 ||
        id_map_set(&mentions->ids, key, (uint32_t)mentions->count) < 0) {
        builder_fail(builder);
        return;
    }
    mentions->items[mentions->count++] = mention;
}

static int compare_mentions(const void *left_pointer, const void *right_pointer)
{
    const struct dated_mention *left = left_pointer, *right = right_pointer;
    if (left->time_ns != right->time_ns)
        return (int64_t)left->time_ns < (int64_t)right->time_ns ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

static void order_mentions(struct builder *builder)
{
    struct builder_mentions *mentions = &builder->mentions;
    struct profile *profile = builder->profile;
    if (mentions->count == 0)
        return;
    profile->mentions = calloc(mentions->count, sizeof(*profile->mentions));
    if (profile->mentions == NULL) {
        builder_fail(builder);
        return;
    }
    for (size_t i = 0; i < mentions->count; i++)
        convert(&builder->clocks, mentions->items[i].clock, &mentions->items[i].time_ns);
    qsort(mentions->items, mentions->count, sizeof(*mentions->items), compare_mentions);
    for (size_t i = 0; i < mentions->count; i++)
        profile->mentions[profile->mention_count++] = mentions->items[i].who;
}

/* --- all times --- */

static uint64_t *dated_time(struct profile *profile, const struct dated *dated)
{
    switch (dated->kind) {
    case DATED_MEMORY_POINT:
        return &profile->processes[dated->owner].timeline[dated->index].boottime_ns;
    case DATED_SMAPS:
        return &profile->smaps[dated->index].boottime_ns;
    case DATED_MEMORY_SNAPSHOT:
        return &profile->memory_snapshots[dated->index].values.boottime_ns;
    case DATED_END:
        return &profile->processes[dated->owner].end.boottime_ns;
    case DATED_COUNTER:
        return &profile->counters[dated->index].boottime_ns;
    case DATED_LIFETIME:
        return &profile->lifetimes[dated->index].boottime_ns;
    case DATED_STACK_SAMPLE:
        return &profile->stack_samples->samples[dated->index].boottime_ns;
    default:
        return &profile->heaps[dated->owner].packet_boottime_ns;
    }
}

/* Convert a heap's times. Times of dumps are CLOCK_MONOTONIC_COARSE. Without a snapshot of this
 * clock they stay unchanged; a dump without a time then gets the time of its packet. */
static void date_heap(const struct builder_clocks *clocks, struct profile_heap *heap)
{
    uint64_t zero = 0;
    bool known = convert(clocks, CLOCK_MONOTONIC_COARSE_ID, &zero);
    for (size_t i = 0; i < heap->dump_count; i++) {
        struct profile_dump *dump = &heap->dumps[i];
        bool has_start = dump->start_boottime_ns != 0;
        if (known) {
            convert(clocks, CLOCK_MONOTONIC_COARSE_ID, &dump->boottime_ns);
            convert(clocks, CLOCK_MONOTONIC_COARSE_ID, &dump->start_boottime_ns);
        } else if (dump->boottime_ns == 0) {
            dump->boottime_ns = heap->packet_boottime_ns;
        }
        if (!has_start)
            dump->start_boottime_ns = dump->boottime_ns;
    }
    if (heap->dump_count > 0)
        heap->start_boottime_ns = heap->dumps[0].start_boottime_ns;
}

/* Compute the difference of the clocks from the last snapshot that has both. */
static void find_realtime(const struct builder_clocks *clocks, struct profile *profile)
{
    uint32_t last = 0;
    for (size_t i = 0; i < clocks->reading_count; i++) {
        const struct clock_reading *reading = &clocks->readings[i];
        if (reading->clock != CLOCK_REALTIME_ID || reading->snapshot < last)
            continue;
        last = reading->snapshot;
        profile->boottime_to_realtime_ns =
            (int64_t)((uint64_t)reading->reading_ns - (uint64_t)reading->trace_ns);
    }
}

void builder_apply_clocks(struct builder *builder)
{
    struct builder_clocks *clocks = &builder->clocks;
    struct profile *profile = builder->profile;
    if (builder->error < 0)
        return;
    if (clocks->trace_clock == 0)
        clocks->trace_clock = CLOCK_BOOTTIME_ID;
    order_readings(clocks);
    for (size_t i = 0; i < clocks->late_count; i++)
        convert(clocks, clocks->late[i].clock, dated_time(profile, &clocks->late[i]));
    for (size_t i = 0; i < builder->heap_count; i++)
        if (!profile->heaps[i].is_of_stack_samples) /* which have their packets' time */
            date_heap(clocks, &profile->heaps[i]);
    for (size_t i = 0; i < profile->process_count; i++)
        convert(clocks, CLOCK_BOOTTIME_ID, &profile->processes[i].start_boottime_ns);
    find_realtime(clocks, profile);
    order_mentions(builder);
}
