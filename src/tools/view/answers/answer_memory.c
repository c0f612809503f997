/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers where the memory of a heap's process went: its memory snapshots as columns over time, and
 * the table of `report --rss` for the chosen dump.
 */
#include <math.h>
#include <stdlib.h>

#include "profile/compare/rss.h"
#include "tools/view/answers/answers.h"
#include "util/xmalloc.h"

/* More snapshots than a screen has columns are thinned out. */
#define SNAPSHOTS_MAX 2000u

/* The snapshots of one process by time. */
struct snapshots {
    const struct memory_snapshot **items;
    size_t count, all; /* after and before thinning */
};

static int compare_times(const void *left_pointer, const void *right_pointer)
{
    const struct memory_snapshot *left = *(const struct memory_snapshot *const *)left_pointer,
                                 *right = *(const struct memory_snapshot *const *)right_pointer;
    if (left->boottime_ns != right->boottime_ns)
        return left->boottime_ns > right->boottime_ns ? 1 : -1;
    return left > right ? 1 : -(left < right);
}

/* Keep every n-th snapshot, the last, and the chosen one. */
static void thin_out(struct snapshots *snapshots, const struct memory_snapshot *chosen)
{
    size_t step = snapshots->all / SNAPSHOTS_MAX + 1;
    for (size_t i = 0; i < snapshots->all; i++)
        if (i % step == 0 || i + 1 == snapshots->all || snapshots->items[i] == chosen)
            snapshots->items[snapshots->count++] = snapshots->items[i];
}

static void find_snapshots(struct snapshots *snapshots, const struct profile *profile,
                           uint32_t process, const struct memory_snapshot *chosen)
{
    *snapshots = (struct snapshots){.items = xreallocarray(NULL, profile->memory_snapshot_count + 1,
                                                           sizeof(struct memory_snapshot *))};
    for (size_t i = 0; i < profile->memory_snapshot_count; i++)
        if (profile->memory_snapshots[i].process == process)
            snapshots->items[snapshots->all++] = &profile->memory_snapshots[i].values;
    qsort(snapshots->items, snapshots->all, sizeof(*snapshots->items), compare_times);
    thin_out(snapshots, chosen);
}

/* --- columns --- */

/* Write an array with a value of each snapshot, which `write` computes from `snapshot`. */
#define WRITE_COLUMN(json, snapshots, key, write)                                                  \
    do {                                                                                           \
        json_array(json, key);                                                                     \
        for (size_t i = 0; i < (snapshots)->count; i++) {                                          \
            const struct memory_snapshot *snapshot = (snapshots)->items[i];                        \
            write;                                                                                 \
        }                                                                                          \
        json_end_array(json);                                                                      \
    } while (0)

static void write_number_or_null(struct json_writer *json, bool is_known, double value)
{
    if (is_known)
        json_number(json, NULL, value);
    else
        json_null(json, NULL);
}

/* Write the columns of one kind, or of the sum of all. */
static void write_parts(struct json_writer *json, const struct snapshots *snapshots,
                        const struct rss_kind *kind)
{
#define PART(member)                                                                               \
    json_unsigned(json, NULL,                                                                      \
                  kind == NULL ? memory_snapshot_sum(snapshot).member                              \
                               : snapshot->parts[kind->kind].member)
    WRITE_COLUMN(json, snapshots, "rss", PART(rss_bytes));
    WRITE_COLUMN(json, snapshots, "swap", PART(swap_bytes));
    WRITE_COLUMN(json, snapshots, "mapped", PART(mapped_bytes));
    WRITE_COLUMN(json, snapshots, "mappings", PART(mappings));
#undef PART
}

static bool has_kind(const struct snapshots *snapshots, enum memory_kind kind)
{
    for (size_t i = 0; i < snapshots->count; i++)
        if (snapshots->items[i]->parts[kind].mappings > 0 ||
            snapshots->items[i]->parts[kind].rss_bytes > 0)
            return true;
    return false;
}

static void write_kinds(struct json_writer *json, const struct snapshots *snapshots)
{
    json_array(json, "kinds");
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        if (rss_kinds[i].kind == MEMORY_PROFILER || !has_kind(snapshots, rss_kinds[i].kind))
            continue;
        json_line(json);
        json_object(json, NULL);
        json_string(json, "name", memory_kind_names[rss_kinds[i].kind]);
        json_string(json, "words", rss_kinds[i].text);
        write_parts(json, snapshots, &rss_kinds[i]);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_live(struct json_writer *json, const struct snapshots *snapshots)
{
    json_object(json, "live");
    WRITE_COLUMN(json, snapshots, "value", json_number(json, NULL, snapshot->live_bytes));
    WRITE_COLUMN(
        json, snapshots, "low",
        json_number(json, NULL, fmax(snapshot->live_bytes - rss_live_margin(snapshot), 0)));
    WRITE_COLUMN(json, snapshots, "high",
                 json_number(json, NULL, snapshot->live_bytes + rss_live_margin(snapshot)));
    json_end_object(json);
    WRITE_COLUMN(
        json, snapshots, "rounding",
        write_number_or_null(json, snapshot->rounding_rule != NULL, snapshot->rounding_bytes));
    WRITE_COLUMN(json, snapshots, "untouched",
                 write_number_or_null(json, !snapshot->pages_unknown, snapshot->untouched_bytes));
    WRITE_COLUMN(json, snapshots, "swapped",
                 write_number_or_null(json, !snapshot->pages_unknown, snapshot->swapped_bytes));
    WRITE_COLUMN(json, snapshots, "allocator", json_string(json, NULL, snapshot->allocator));
}

static void write_snapshots(struct json_writer *json, const struct snapshots *snapshots,
                            const struct memory_snapshot *chosen)
{
    json_object(json, "snapshots");
    json_unsigned(json, "all", snapshots->all);
    size_t at = 0;
    while (at < snapshots->count && snapshots->items[at] != chosen)
        at++;
    if (at < snapshots->count)
        json_unsigned(json, "chosen", at);
    else
        json_null(json, "chosen");
    WRITE_COLUMN(json, snapshots, "time", json_unsigned(json, NULL, snapshot->boottime_ns));
    write_parts(json, snapshots, NULL);
    WRITE_COLUMN(json, snapshots, "profiler",
                 json_unsigned(json, NULL, snapshot->parts[MEMORY_PROFILER].rss_bytes));
    write_live(json, snapshots);
    write_kinds(json, snapshots);
    json_end_object(json);
}

/* --- the answer --- */

/* Return why the memory at the dump is unknown; "": it is known. */
static const char *why_unknown(const struct rss_moment *moment, const struct snapshots *snapshots)
{
    if (moment->snapshot != NULL)
        return "";
    return snapshots->count == 0 ? rss_why_no_snapshot
                                 : "The first memory snapshot of the process is later than this "
                                   "dump.";
}

static void write_memory(const struct view_selection *selection, uint64_t number, FILE *out)
{
    const struct export_dump *at = &selection->at.dump;
    const struct profile *profile = selection->at.of->profile;
    const struct rss_moment moment = rss_moment_of(profile, at->heap, at->dump, number);
    struct snapshots snapshots;
    find_snapshots(&snapshots, profile, at->heap->process, moment.snapshot);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "why", why_unknown(&moment, &snapshots));
    rss_write_json(&json, "moment", &moment);
    write_snapshots(&json, &snapshots, moment.snapshot);
    json_end_object(&json);
    free(snapshots.items);
}

int answer_memory(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0) {
        bool is_last = view_parameter(parameters, "dump") == NULL;
        size_t index = (size_t)(selection.at.dump.dump - selection.at.dump.heap->dumps);
        write_memory(&selection, is_last ? 0 : index + 1, out);
    }
    view_selection_clear(&selection);
    return code;
}
