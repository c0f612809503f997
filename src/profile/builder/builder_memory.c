/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read MemorySnapshots, the snapshots of a process's memory. Impossible values, such as a figure
 * that is not finite, make one damaged: the report divides and subtracts them.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

#define SNAPSHOT(name) PB_MEMORY_SNAPSHOT_##name
#define PART(name) PB_MEMORY_SNAPSHOT_PART_##name
#define BYTES_MAX (UINT64_C(1) << 56) /* the sum of all kinds does not overflow */

static int take_part(struct memory_snapshot *snapshot, struct proto_span span)
{
    struct memory_part part = {0};
    struct proto_field field;
    uint64_t kind = MEMORY_UNKNOWN;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        switch (field.number) {
        case PART(KIND):
            kind = field.value;
            break;
        case PART(RSS_BYTES):
            part.rss_bytes = field.value;
            break;
        case PART(SWAP_BYTES):
            part.swap_bytes = field.value;
            break;
        case PART(MAPPED_BYTES):
            part.mapped_bytes = field.value;
            break;
        case PART(MAPPINGS):
            part.mappings = field.value;
            break;
        }
    }
    if (status < 0 || part.rss_bytes > BYTES_MAX || part.swap_bytes > BYTES_MAX)
        return -EBADMSG;
    /* A kind that only a later version has is still a part of the whole. Of two parts of one kind
     * the last counts, as of two fields. */
    snapshot->parts[kind < MEMORY_KINDS ? kind : MEMORY_UNKNOWN] = part;
    return 0;
}

static double number_of(const struct proto_field *field)
{
    double number;
    memcpy(&number, &field->value, sizeof(number));
    return number;
}

static bool are_numbers(const struct memory_snapshot *snapshot)
{
    return isfinite(snapshot->live_bytes) && isfinite(snapshot->live_bytes_variance) &&
           isfinite(snapshot->live_count) && isfinite(snapshot->rounding_bytes) &&
           isfinite(snapshot->untouched_bytes) && isfinite(snapshot->swapped_bytes) &&
           fabs(snapshot->live_bytes) < 0x1p62 && fabs(snapshot->rounding_bytes) < 0x1p62 &&
           fabs(snapshot->untouched_bytes) < 0x1p62 && fabs(snapshot->swapped_bytes) < 0x1p62;
}

static void take_field(struct builder *builder, struct memory_snapshot *snapshot,
                       const struct proto_field *field)
{
    switch (field->number) {
    case SNAPSHOT(PID):
        snapshot->pid = (int32_t)field->value;
        break;
    case SNAPSHOT(LIVE_BYTES):
        snapshot->live_bytes = number_of(field);
        break;
    case SNAPSHOT(LIVE_BYTES_VARIANCE):
        snapshot->live_bytes_variance = number_of(field);
        break;
    case SNAPSHOT(LIVE_COUNT):
        snapshot->live_count = number_of(field);
        break;
    case SNAPSHOT(ROUNDING_BYTES):
        snapshot->rounding_bytes = number_of(field);
        break;
    case SNAPSHOT(ROUNDING_RULE):
        snapshot->rounding_rule = builder_text_of_span(builder, field->span);
        break;
    case SNAPSHOT(UNTOUCHED_BYTES):
        snapshot->untouched_bytes = number_of(field);
        break;
    case SNAPSHOT(SWAPPED_BYTES):
        snapshot->swapped_bytes = number_of(field);
        break;
    case SNAPSHOT(ALLOCATOR):
        snapshot->allocator = builder_text_of_span(builder, field->span);
        break;
    case SNAPSHOT(DURATION_US):
        snapshot->duration_us = field->value;
        break;
    case SNAPSHOT(PAGES_UNKNOWN):
        snapshot->pages_unknown = field->value != 0;
        break;
    }
}

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
        if (field.number == SNAPSHOT(PARTS))
            code = take_part(&taken.values, field.span);
        else
            take_field(builder, &taken.values, &field);
    }
    if (code < 0 || !are_numbers(&taken.values))
        return builder->error < 0 ? builder->error : -EBADMSG;
    taken.process = builder_process(builder, taken.values.pid);
    if (taken.process == PROFILE_NONE)
        return builder->error;
    if (array_reserve(&profile->memory_snapshots, &builder->memory_snapshot_capacity,
                      profile->memory_snapshot_count, 1, sizeof(taken)) < 0)
        return builder_fail(builder);
    profile->memory_snapshots[profile->memory_snapshot_count++] = taken;
    builder_date(builder, DATED_MEMORY_SNAPSHOT, 0, profile->memory_snapshot_count - 1);
    return builder->error;
}
