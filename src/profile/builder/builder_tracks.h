/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter tracks (ProcessStats, SysStats, TrackEvent) and lifetimes of threads, for SQL. Only if
 * as_in_trace.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_TRACKS_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_TRACKS_H

#include "trace/proto_cursor.h"
#include "util/id_map.h"

struct builder;
struct profile_counter_track;

struct builder_tracks {
    struct id_map ids; /* by process and name: tracks whose names Perfetto gives */
    struct id_map descriptors;
    struct track_descriptor {
        uint64_t uuid, parent_uuid;
        int32_t pid; /* 0: it is not that of a process */
        bool is_counter, is_incremental;
        const char *name, *unit;
        double multiplier, sum; /* sum: of incremental values */
        uint32_t track;         /* PROFILE_NONE: without a value so far */
    } * items;
    size_t count, capacity, track_capacity, counter_capacity, lifetime_capacity;
};

/* The messages of a packet, without contents if it has none. */
struct track_parts {
    struct proto_span process_stats, sys_stats, descriptor, event, task_state;
};

/* Return 0, -EBADMSG for a malformed message, or the builder's error. */
int builder_tracks_take(struct builder *builder, const struct track_parts *parts,
                        uint64_t packet_ns);
/* Add a track: return its index, or PROFILE_NONE after an error. Add a value to one. */
uint32_t builder_track_add(struct builder *builder, const struct profile_counter_track *track);
int builder_track_value(struct builder *builder, uint32_t track, uint64_t packet_ns, double value);
/* Sort counters and lifetimes by time, after their times became trace time. */
void builder_tracks_order(struct builder *builder);
void builder_tracks_free(struct builder_tracks *tracks);

#endif
