/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers what the processes of a dump's profile report of their allocators and of themselves, each
 * size at the time that is nearest to the dump's. Chrome's processes report at slightly different
 * times, and some sizes apart from others, but an allocator that is gone is not to be shown: a size
 * counts if it is within a second of the dump, or as near as the nearest one of its process.
 */
#include <stdlib.h>

#include "tools/view/answers/answers.h"
#include "trace/intern.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define NEAR_NS UINT64_C(1000000000)

struct reports {
    const struct profile *profile;
    uint64_t moment;
    struct intern_table names; /* of a process and a name: its place in `nearest` + 1 */
    const struct profile_reported **nearest;
    size_t count;
    uint64_t *distances; /* by process: of the nearest one */
};

static uint64_t answer_allocators_distance(const struct reports *reports,
                                           const struct profile_reported *row)
{
    return row->boottime_ns > reports->moment ? row->boottime_ns - reports->moment
                                              : reports->moment - row->boottime_ns;
}

/* Find the nearest row of each process and name. */
static void find_nearest(struct reports *reports)
{
    const struct profile *profile = reports->profile;
    reports->nearest = xcalloc(profile->reported_count + 1, sizeof(*reports->nearest));
    reports->distances =
        xreallocarray(NULL, profile->process_count + 1, sizeof(*reports->distances));
    for (size_t i = 0; i < profile->process_count; i++)
        reports->distances[i] = UINT64_MAX;
    for (size_t i = 0; i < profile->reported_count; i++) {
        const struct profile_reported *row = &profile->reported[i];
        /* Equal names of a profile are the same pointer. */
        const uint64_t key[] = {row->process, (uintptr_t)row->name, row->is_allocator};
        bool added;
        uint64_t id = xmalloc_id(intern_bytes(&reports->names, key, sizeof(key), &added));
        reports->count += added;
        if (added || answer_allocators_distance(reports, row) <
                         answer_allocators_distance(reports, reports->nearest[id - 1]))
            reports->nearest[id - 1] = row;
        if (answer_allocators_distance(reports, row) < reports->distances[row->process])
            reports->distances[row->process] = answer_allocators_distance(reports, row);
    }
}

static void write_row(struct json_writer *json, const struct profile_reported *row)
{
    json_line(json);
    json_object(json, NULL);
    json_unsigned(json, "process", row->process);
    json_unsigned(json, "time", row->boottime_ns);
    json_string(json, "name", row->name);
    json_bool(json, "allocator", row->is_allocator);
    json_number(json, "size", row->size_bytes);
    json_number(json, "effective_size", row->effective_bytes);
    json_end_object(json);
}

static void write_answer(const struct reports *reports, FILE *out)
{
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_array(&json, "row");
    for (size_t i = 0; i < reports->count; i++) {
        const struct profile_reported *row = reports->nearest[i];
        uint64_t away = answer_allocators_distance(reports, row);
        if (away <= NEAR_NS || away == reports->distances[row->process])
            write_row(&json, row);
    }
    json_end_array(&json);
    json_end_object(&json);
}

int answer_allocators(struct view_profiles *profiles, const struct view_parameters *parameters,
                      FILE *out, struct error *error)
{
    struct view_selection selection;
    struct reports reports = {0};
    int code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0) {
        reports.profile = selection.at.of->profile;
        reports.moment = selection.at.dump.dump->boottime_ns;
        find_nearest(&reports);
        write_answer(&reports, out);
    }
    view_selection_clear(&selection);
    intern_free(&reports.names);
    free(reports.nearest);
    free(reports.distances);
    return code;
}
