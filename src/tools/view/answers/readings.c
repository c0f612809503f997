/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the readings of a process's timeline with its snapshots, and thins them out. */
#include "tools/view/answers/readings.h"

#include <stdlib.h>

#include "util/xmalloc.h"

#define UNKNOWN PROFILE_UNKNOWN_BYTES

/* --- snapshots --- */

static int compare_snapshots(const void *left_pointer, const void *right_pointer)
{
    const struct view_snapshot *left = left_pointer, *right = right_pointer;
    if (left->process != right->process)
        return left->process > right->process ? 1 : -1;
    return (left->boottime_ns > right->boottime_ns) - (left->boottime_ns < right->boottime_ns);
}

static uint64_t sum_of(uint64_t sum, bool is_known, uint64_t more_kb)
{
    bool fits = is_known && sum != UNKNOWN && more_kb < (UNKNOWN - sum) / 1024;
    return fits ? sum + more_kb * 1024 : UNKNOWN;
}

/* Add the sum of the mappings of a SmapsPacket, which begins at `first`. Return its end. */
static size_t add_smaps(struct view_snapshots *snapshots, const struct profile *profile,
                        size_t first)
{
    const uint32_t resident = PROFILE_SMAPS_PRIVATE_DIRTY | PROFILE_SMAPS_PRIVATE_CLEAN |
                              PROFILE_SMAPS_SHARED_DIRTY | PROFILE_SMAPS_SHARED_CLEAN;
    const struct profile_smaps *begin = &profile->smaps[first];
    struct view_snapshot *sum = &snapshots->items[snapshots->count++];
    *sum = (struct view_snapshot){.boottime_ns = begin->boottime_ns, .process = begin->process};
    size_t i = first;
    for (; i < profile->smaps_count; i++) {
        const struct profile_smaps *one = &profile->smaps[i];
        if (one->process != begin->process || one->boottime_ns != begin->boottime_ns)
            break;
        uint64_t rss_kb = one->private_dirty_kb + one->private_clean_resident_kb +
                          one->shared_dirty_resident_kb + one->shared_clean_resident_kb;
        sum->rss_bytes = sum_of(sum->rss_bytes, (one->known & resident) == resident, rss_kb);
        sum->swap_bytes =
            sum_of(sum->swap_bytes, (one->known & PROFILE_SMAPS_SWAP) != 0, one->swap_kb);
    }
    return i;
}

void view_snapshots_gather(struct view_snapshots *snapshots, const struct profile *profile)
{
    size_t most = profile->memory_snapshot_count + profile->smaps_count;
    *snapshots = (struct view_snapshots){.items = xcalloc(most + 1, sizeof(*snapshots->items))};
    for (size_t i = 0; i < profile->memory_snapshot_count; i++) {
        const struct profile_memory_snapshot *snapshot = &profile->memory_snapshots[i];
        const struct memory_part sum = memory_snapshot_sum(&snapshot->values);
        snapshots->items[snapshots->count++] =
            (struct view_snapshot){.boottime_ns = snapshot->values.boottime_ns,
                                   .rss_bytes = sum.rss_bytes,
                                   .swap_bytes = sum.swap_bytes,
                                   .process = snapshot->process};
    }
    for (size_t i = 0; i < profile->smaps_count;)
        i = add_smaps(snapshots, profile, i);
    qsort(snapshots->items, snapshots->count, sizeof(*snapshots->items), compare_snapshots);
}

void view_snapshots_free(struct view_snapshots *snapshots)
{
    free(snapshots->items);
}

/* --- readings --- */

/* LIVE is what is live in all profiled heaps of the process. */
enum column { RSS, ANONYMOUS, FILES, SHMEM, SWAP, LIVE, COLUMNS };
static const char *const column_names[COLUMNS] = {"rss",   "anonymous", "file",
                                                  "shmem", "swap",      "live"};

struct reading {
    uint64_t boottime_ns;
    uint64_t values[COLUMNS];
};

struct readings {
    struct reading *items;
    size_t count;
};

static int compare_readings(const void *left_pointer, const void *right_pointer)
{
    const struct reading *left = left_pointer, *right = right_pointer;
    return (left->boottime_ns > right->boottime_ns) - (left->boottime_ns < right->boottime_ns);
}

static bool has_column(const struct readings *readings, enum column column)
{
    for (size_t i = 0; i < readings->count; i++)
        if (readings->items[i].values[column] != UNKNOWN)
            return true;
    return false;
}

static uint64_t known_or_unknown(uint64_t bytes)
{
    return bytes == 0 ? UNKNOWN : bytes;
}

static void add_points(struct readings *readings, const struct profile_process *process)
{
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        readings->items[readings->count++] = (struct reading){
            .boottime_ns = point->boottime_ns,
            .values = {[RSS] = known_or_unknown(point->rss_bytes),
                       [ANONYMOUS] = known_or_unknown(point->rss_anon_bytes),
                       [FILES] = point->rss_file_bytes,
                       [SHMEM] = point->rss_shmem_bytes,
                       [SWAP] = point->swap_bytes,
                       [LIVE] = known_or_unknown(point->heap_bytes)},
        };
    }
}

/* Add snapshots for the columns that the timeline does not have. */
static void add_snapshots(struct readings *readings, const struct view_snapshot *first,
                          size_t count)
{
    bool has_rss = has_column(readings, RSS), has_swap = has_column(readings, SWAP);
    for (size_t i = 0; i < count && !(has_rss && has_swap); i++)
        readings->items[readings->count++] = (struct reading){
            .boottime_ns = first[i].boottime_ns,
            .values = {[RSS] = has_rss ? UNKNOWN : first[i].rss_bytes,
                       [ANONYMOUS] = UNKNOWN,
                       [FILES] = UNKNOWN,
                       [SHMEM] = UNKNOWN,
                       [SWAP] = has_swap ? UNKNOWN : first[i].swap_bytes,
                       [LIVE] = UNKNOWN},
        };
}

static void readings_gather(struct readings *readings, const struct profile *profile,
                            size_t process, const struct view_snapshots *snapshots)
{
    const struct profile_process *of = &profile->processes[process];
    size_t first = 0, end = snapshots->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (snapshots->items[middle].process < process)
            first = middle + 1;
        else
            end = middle;
    }
    while (end < snapshots->count && snapshots->items[end].process == process)
        end++;
    *readings = (struct readings){
        .items = xcalloc(of->timeline_count + (end - first) + 1, sizeof(*readings->items))};
    add_points(readings, of);
    add_snapshots(readings, snapshots->items + first, end - first);
    qsort(readings->items, readings->count, sizeof(*readings->items), compare_readings);
}

static bool is_empty(const struct reading *reading)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (reading->values[i] != UNKNOWN)
            return false;
    return true;
}

/* Return whether reading i has a known value above that of reading j. */
static bool exceeds(const struct reading *group, size_t i, size_t j, enum column column)
{
    uint64_t one = group[i].values[column], other = group[j].values[column];
    return one != UNKNOWN && (other == UNKNOWN || one > other);
}

/* Keep of each group of readings those with the most resident, swapped and live bytes, and the
 * first without any value, which is a gap of the lines. */
static void thin_out(struct readings *readings, size_t most)
{
    size_t size = readings->count / most + 1, kept = 0;
    for (size_t first = 0; first < readings->count && size > 1; first += size) {
        const struct reading *group = readings->items + first;
        size_t count = readings->count - first < size ? readings->count - first : size;
        size_t highest = 0, swapped = 0, live = 0, gap = count;
        for (size_t i = 0; i < count; i++) {
            highest = exceeds(group, i, highest, RSS) ? i : highest;
            swapped = exceeds(group, i, swapped, SWAP) ? i : swapped;
            live = exceeds(group, i, live, LIVE) ? i : live;
            gap = gap == count && is_empty(&group[i]) ? i : gap;
        }
        for (size_t i = 0; i < count; i++)
            if (i == highest || i == gap || (i == swapped && group[i].values[SWAP] != UNKNOWN) ||
                (i == live && group[i].values[LIVE] != UNKNOWN))
                readings->items[kept++] = group[i];
    }
    if (size > 1)
        readings->count = kept;
}

/* --- columns --- */

static void write_value(struct json_writer *json, uint64_t value)
{
    if (value == UNKNOWN)
        json_null(json, NULL);
    else
        json_unsigned(json, NULL, value);
}

static void write_column(struct json_writer *json, const struct readings *readings,
                         enum column column)
{
    if (!has_column(readings, column)) {
        json_null(json, column_names[column]);
        return;
    }
    json_array(json, column_names[column]);
    for (size_t i = 0; i < readings->count; i++)
        write_value(json, readings->items[i].values[column]);
    json_end_array(json);
}

void view_readings_write(struct json_writer *json, const struct profile *profile, size_t process,
                         const struct view_snapshots *snapshots, size_t most)
{
    struct readings readings;
    readings_gather(&readings, profile, process, snapshots);
    json_object(json, "memory");
    json_unsigned(json, "all", readings.count);
    thin_out(&readings, most);
    json_array(json, "time");
    for (size_t i = 0; i < readings.count; i++)
        json_unsigned(json, NULL, readings.items[i].boottime_ns);
    json_end_array(json);
    for (enum column column = 0; column < COLUMNS; column++)
        write_column(json, &readings, column);
    json_end_object(json);
    free(readings.items);
}
