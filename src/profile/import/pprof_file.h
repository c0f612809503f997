/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pprof file in memory: its tables by id, as spans of its bytes. pprof.c interprets them.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_PPROF_FILE_H
#define HEAPPROFD_PROFILE_IMPORT_PPROF_FILE_H

#include "profile/profile.h"
#include "trace/proto_members.h"
#include "trace/read/trace_source.h"
#include "util/id_map.h"

/* More unpacked bytes count as a bomb. */
#define PPROF_BYTES_MAX (UINT64_C(2) << 30)

struct pprof_file {
    uint8_t *bytes;
    size_t length;
    struct proto_span *strings;
    size_t string_count, string_capacity;
    struct pprof_mapping {
        uint64_t id, start, limit, offset;
        uint64_t file, build_id; /* strings */
    } * mappings;
    size_t mapping_count, mapping_capacity;
    struct id_map mapping_ids;
    struct pprof_function {
        uint64_t id;
        uint64_t name, system_name, file; /* strings */
    } * functions;
    size_t function_count, function_capacity;
    struct id_map function_ids;
    struct pprof_location {
        uint64_t id, mapping, address; /* mapping: its id */
        struct proto_span message;     /* for its lines */
    } * locations;
    size_t location_count, location_capacity;
    struct id_map location_ids;
    struct pprof_value_type {
        uint64_t type, unit; /* strings */
    } * types;
    size_t type_count, type_capacity;
    uint64_t *comments; /* strings */
    size_t comment_count, comment_capacity;
    struct pprof_value_type period_type;
    uint64_t period, time_nanos, duration_nanos;
    uint64_t drop_frames, keep_frames, default_type; /* strings */
    bool is_of_period;                               /* one of our files about one period */
    struct pprof_earlier {
        struct profile_earlier earlier;
        double period_sampled_bytes, period_sampled_calls;
    } earlier;
};

/* Return 0, or a negative errno with *error set. */
int pprof_file_read(struct pprof_file *file, struct trace_source *source, struct error *error);
void pprof_file_free(struct pprof_file *file);

/* Return a string; empty if it does not exist. */
struct proto_span pprof_file_string(const struct pprof_file *file, uint64_t index);

#endif
