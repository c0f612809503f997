/* SPDX-License-Identifier: Apache-2.0 */
/* Perfetto's tables of counters: of processes (process_counter_track) and of the machine. */
#include "tools/query/query_table.h"

QUERY_ARRAY(track, profile->counter_tracks, profile->counter_track_count)

#define TRACK(column, expression)                                                                  \
    QUERY_GETTER(track_##column, const struct profile_counter_track *track, expression)

TRACK(unit, query_text_or_null(track->unit))
TRACK(name, query_text_or_null(track->name))
TRACK(upid, track->process == PROFILE_NONE
                ? query_null()
                : query_id(row->trace->bases.process, row->trace->process_rows[track->process]))
#undef TRACK

#define TRACK_COLUMNS                                                                              \
    {"name", TEXT, "for instance mem.rss.anon", .get = track_name},                                \
        {QUERY_MEMBER("type", "kind of counter, for instance process_memory",                      \
                      struct profile_counter_track, type)},                                        \
    {                                                                                              \
        "unit", TEXT, "NULL: none", .get = track_unit                                              \
    }

static const struct query_column track_columns[] = {
    {"id", INT, "number of the track", .lookup = QUERY_INDEXED},
    TRACK_COLUMNS,
};

/* --- tracks of processes --- */

static size_t process_track_count(struct query_trace *trace)
{
    return trace->process_track_count;
}

static void find_process_track(struct query_row *row)
{
    row->item = &row->trace->profile->counter_tracks[row->trace->process_tracks[row->number]];
}

static struct query_value process_track_id(const struct query_row *row)
{
    return query_integer(row->trace->bases.counter_track + row->trace->process_tracks[row->number]);
}

static const struct query_column process_track_columns[] = {
    {"id", INT, "number of the track, as in counter_track", .get = process_track_id,
     .lookup = QUERY_INDEXED},
    TRACK_COLUMNS,
    {"upid", INT, "process", .get = track_upid, .lookup = QUERY_INDEXED},
};

/* --- values --- */

QUERY_ARRAY(counter, profile->counters, profile->counter_count)

QUERY_GETTER(counter_track_id, const struct profile_counter *counter,
             query_id(row->trace->bases.counter_track, counter->track))

static const struct query_column counter_columns[] = {
    {"id", INT, "number of the value", .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("ts", "when, in ns", struct profile_counter, boottime_ns)},
    {"track_id", INT, "counter_track.id", .get = counter_track_id, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("value", "memory in bytes, times in ns", struct profile_counter, value)},
};

const struct query_table query_counter_tables[] = {
    {"counter", "values of counters over time", QUERY_COLUMNS(counter_columns), true, counter_count,
     NULL, find_counter, NULL},
    {"counter_track", "all counters", QUERY_COLUMNS(track_columns), true, track_count, NULL,
     find_track, NULL},
    {"process_counter_track", "the counters of processes", QUERY_COLUMNS(process_track_columns),
     false, process_track_count, NULL, find_process_track, NULL},
    {0},
};
