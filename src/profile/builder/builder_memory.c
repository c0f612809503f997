/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read MemorySnapshots, the snapshots of a process's memory. Impossible values, such as a figure
 * that is not finite, make one damaged: the report divides and subtracts them.
 */
#include <errno.h>
#include <math.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

#define SNAPSHOT(name) PB_MEMORY_SNAPSHOT_##name
#define PART(name) PB_MEMORY_SNAPSHOT_PART_##name

static const struct proto_member part_members[] = {
    PROTO_MEMBER(PART(RSS_BYTES), struct memory_part, rss_bytes),
    PROTO_MEMBER(PART(SWAP_BYTES), struct memory_part, swap_bytes),
    PROTO_MEMBER(PART(MAPPED_BYTES), struct memory_part, mapped_bytes),
    PROTO_MEMBER(PART(MAPPINGS), struct memory_part, mappings),
    PROTO_MEMBER(PART(HUGE_BYTES), struct memory_part, huge_bytes),
};

static int take_part(struct memory_snapshot *snapshot, struct proto_span span)
{
    struct memory_part part = {0};
    struct proto_field field;
    uint64_t kind = MEMORY_UNKNOWN;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        if (field.number == PART(KIND))
            kind = field.value;
        proto_store(PROTO_MEMBERS(part_members), &field, &part);
    }
    if (status < 0 || part.rss_bytes > PROFILE_BYTES_MAX || part.swap_bytes > PROFILE_BYTES_MAX ||
        part.huge_bytes > part.rss_bytes)
        return -EBADMSG;
    /* A kind that only a later version has is still a part of the whole. Of two parts of one kind
     * the last counts, as of two fields. */
    snapshot->parts[kind < MEMORY_KINDS ? kind : MEMORY_UNKNOWN] = part;
    return 0;
}

static bool are_numbers(const struct memory_snapshot *snapshot)
{
    return isfinite(snapshot->live_bytes) && isfinite(snapshot->live_bytes_variance) &&
           isfinite(snapshot->live_count) && isfinite(snapshot->rounding_bytes) &&
           isfinite(snapshot->untouched_bytes) && isfinite(snapshot->swapped_bytes) &&
           isfinite(snapshot->others_live_bytes) && isfinite(snapshot->others_live_variance) &&
           fabs(snapshot->live_bytes) < 0x1p62 && fabs(snapshot->rounding_bytes) < 0x1p62 &&
           fabs(snapshot->untouched_bytes) < 0x1p62 && fabs(snapshot->swapped_bytes) < 0x1p62;
}

#define MEMBER(name, member) PROTO_MEMBER(SNAPSHOT(name), struct memory_snapshot, member)
/* As it is in the file: are_numbers() checks it. */
#define NUMBER(name, member)                                                                       \
    PROTO_MEMBER_AS(SNAPSHOT(name), struct memory_snapshot, member, PROTO_BITS_TO_DOUBLE)

static const struct proto_member snapshot_members[] = {
    MEMBER(PID, pid),
    NUMBER(LIVE_BYTES, live_bytes),
    NUMBER(LIVE_BYTES_VARIANCE, live_bytes_variance),
    NUMBER(LIVE_COUNT, live_count),
    NUMBER(ROUNDING_BYTES, rounding_bytes),
    MEMBER(ROUNDING_RULE, rounding_rule),
    NUMBER(UNTOUCHED_BYTES, untouched_bytes),
    NUMBER(SWAPPED_BYTES, swapped_bytes),
    NUMBER(OTHERS_LIVE_BYTES, others_live_bytes),
    NUMBER(OTHERS_LIVE_VARIANCE, others_live_variance),
    MEMBER(ARENAS, arenas),
    MEMBER(ARENAS_RSS_BYTES, arenas_rss_bytes),
    MEMBER(ALLOCATOR, allocator),
    MEMBER(DURATION_US, duration_us),
    MEMBER(PAGES_UNKNOWN, pages_unknown),
    MEMBER(UNEXPLAINED_BYTES, unexplained.bytes),
    MEMBER(ANONYMOUS_BYTES, unexplained.of_bytes),
    MEMBER(MOST_UNEXPLAINED_BYTES, most_unexplained.bytes),
    MEMBER(MOST_ANONYMOUS_BYTES, most_unexplained.of_bytes),
};

int builder_memory_snapshot(struct builder *builder, struct proto_span message, uint64_t packet_ns)
{
    struct profile *profile = builder->profile;
    struct profile_memory_snapshot taken = {.values.boottime_ns = packet_ns,
                                            .order = builder->dumps};
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&message, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == SNAPSHOT(PARTS)) {
            code = take_part(&taken.values, field.span);
        } else {
            taken.values.has_unexplained |= field.number == SNAPSHOT(UNEXPLAINED_BYTES);
            builder_store(builder, PROTO_MEMBERS(snapshot_members), &field, &taken.values);
        }
    }
    if (code < 0 || !are_numbers(&taken.values))
        return builder->error < 0 ? builder->error : -EBADMSG;
    taken.process = builder_process(builder, taken.values.pid);
    if (taken.process == PROFILE_NONE)
        return builder->error;
    if (ARRAY_RESERVE(&profile->memory_snapshots, &builder->memory_snapshot_capacity,
                      profile->memory_snapshot_count, 1) < 0)
        return builder_fail(builder);
    profile->memory_snapshots[profile->memory_snapshot_count++] = taken;
    if (taken.values.has_unexplained)
        profile->processes[taken.process].unexplained = taken.values.most_unexplained;
    builder_date(builder, DATED_MEMORY_SNAPSHOT, 0, profile->memory_snapshot_count - 1);
    return builder->error;
}
