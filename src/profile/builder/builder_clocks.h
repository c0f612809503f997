/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and times of a trace: each item that a packet dates has its time converted to trace time
 * once the whole trace was read.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_CLOCKS_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "trace/proto_cursor.h"
#include "util/id_map.h"

struct builder;

/* What has the time of a packet. */
enum dated_kind {
    DATED_MEMORY_POINT, /* of a process */
    DATED_SMAPS,
    DATED_MEMORY_SNAPSHOT,
    DATED_END,  /* of a process */
    DATED_HEAP, /* the heap's last packet */
    DATED_COUNTER,
    DATED_LIFETIME,
    DATED_STACK_SAMPLE,
};

struct builder_clocks {
    struct clock_reading {
        uint64_t clock; /* its id; the upper half is the sequence, if the clock belongs to one */
        int64_t reading_ns, trace_ns;
        uint32_t snapshot; /* number */
    } * readings;
    struct clock_kind {
        uint64_t clock, unit_ns;
        bool is_incremental; /* each time is relative to the previous one */
        uint64_t last_ns;
    } * kinds; /* of clocks whose times are not plain ns */
    struct id_map kind_ids;
    struct dated {
        enum dated_kind kind;
        uint32_t owner, index;
        uint64_t clock;
    } * late;              /* items with times of other clocks than the trace's */
    uint64_t trace_clock;  /* 0: unknown so far */
    uint64_t packet_clock; /* 0: the trace's */
    size_t reading_count, reading_capacity, kind_count, kind_capacity, late_count, late_capacity;
    uint32_t snapshot_count;
};

/* See builder_mention(). */
struct builder_mentions {
    struct dated_mention {
        struct profile_mention who;
        uint64_t time_ns, clock, order;
    } * items;
    size_t count, capacity;
    struct id_map ids;
    uint64_t latest_ns; /* of any packet, by the trace's clock */
};

void builder_clocks_free(struct builder_clocks *clocks);

/* Read the ClockSnapshot of a packet of this sequence. Return -EBADMSG if it is malformed. */
int builder_clock_snapshot(struct builder *builder, uint32_t sequence, struct proto_span snapshot);

/* Begin a packet. Return its timestamp in ns of its clock. Clock 0 is the trace's own. */
uint64_t builder_packet_time(struct builder *builder, uint64_t timestamp, uint64_t clock_id,
                             uint32_t sequence);

void builder_mentions_free(struct builder_mentions *mentions);

/* Convert all times to trace time. Call it once, after the whole trace was read. */
void builder_apply_clocks(struct builder *builder);

/* Record that a Perfetto packet of this time names a process, or its thread if tid is not 0. */
void builder_mention(struct builder *builder, int32_t pid, int32_t tid, uint64_t packet_ns);
/* Record that the item that was just added has the packet's time, which later becomes trace time.
 */
void builder_date(struct builder *builder, enum dated_kind kind, uint32_t owner, size_t index);

#endif
