/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write an event's regions and totals of a process's memory.
 *
 * Regions are the code on stacks, and all mappings if the trace has snapshots of them
 * (SmapsPacket). Our own snapshots have sums by kind of memory: these are regions without a place.
 * `fo` is the ELF's own address of a region's beginning, which is right for every
 * linker.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/write_private.h"
#include "util/json.h"
#include "util/sorted_search.h"

/* Code: read and execute. Data: read and write. */
#define CODE_PROTECTION 5
#define DATA_PROTECTION 6

/* --- mappings --- */

static void use_mapping(struct written_memory *memory, uint32_t mapping)
{
    if (!memory->here[mapping].used)
        memory->used_mappings[memory->used_count++] = mapping;
    memory->here[mapping].used = true;
}

static void mark_stack(struct document *document, uint32_t callsite)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    for (; callsite != PROFILE_NONE && memory->seen[callsite] != memory->seen_now;
         callsite = profile->callsites[callsite].parent) {
        uint32_t mapping = profile->frames[profile->callsites[callsite].frame].mapping;
        memory->seen[callsite] = memory->seen_now;
        if (mapping != PROFILE_NONE)
            use_mapping(memory, mapping);
    }
}

static const char *file_of_smaps(const struct profile_smaps *smaps)
{
    return *smaps->file_name != '\0' ? smaps->file_name : smaps->path;
}

static int compare_of_pid(const void *left_pointer, const void *right_pointer)
{
    const struct of_pid *left = left_pointer, *right = right_pointer;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* Return the index of the first one of a pid. */
static size_t first_of_pid(const struct of_pid *items, size_t count, int32_t pid)
{
    return SORTED_SEARCH(count, i, items[i].pid < pid);
}

/* Number the ranges of mappings, so that a snapshot's region finds them. */
static int number_ranges(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    for (size_t i = 0; i < profile->mapping_count && profile->smaps_count > 0; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        bool added;
        uint64_t file =
            intern_bytes(&memory->file_ids, mapping->path, strlen(mapping->path), &added);
        const uint64_t range[] = {file, mapping->start, mapping->end - mapping->start};
        uint64_t id = intern_bytes(&memory->range_ids, range, sizeof(range), &added);
        if (file == 0 || id == 0)
            return -ENOMEM;
        memory->here[i].next_of_range = memory->ranges[id - 1].first;
        memory->ranges[id - 1].first = (uint32_t)i + 1;
    }
    return 0;
}

static int sort_by_pid(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    memory->all_smaps = calloc(profile->smaps_count + 1, sizeof(*memory->all_smaps));
    memory->all_snapshots =
        calloc(profile->memory_snapshot_count + 1, sizeof(*memory->all_snapshots));
    memory->all_processes = calloc(profile->process_count + 1, sizeof(*memory->all_processes));
    if (memory->all_smaps == NULL || memory->all_snapshots == NULL || memory->all_processes == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < profile->smaps_count; i++)
        memory->all_smaps[i] =
            (struct of_pid){profile->processes[profile->smaps[i].process].pid, (uint32_t)i};
    for (size_t i = 0; i < profile->memory_snapshot_count; i++)
        memory->all_snapshots[i] = (struct of_pid){
            profile->processes[profile->memory_snapshots[i].process].pid, (uint32_t)i};
    for (size_t i = 0; i < profile->process_count; i++)
        memory->all_processes[i] = (struct of_pid){profile->processes[i].pid, (uint32_t)i};
    qsort(memory->all_smaps, profile->smaps_count, sizeof(struct of_pid), compare_of_pid);
    qsort(memory->all_snapshots, profile->memory_snapshot_count, sizeof(struct of_pid),
          compare_of_pid);
    qsort(memory->all_processes, profile->process_count, sizeof(struct of_pid), compare_of_pid);
    return 0;
}

/* List the snapshots of the process's mappings. Code in them is written like code on stacks: an
 * imported file has both, and is written unchanged. */
static void mark_snapshots(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    memory->smaps_count = 0;
    for (size_t i = first_of_pid(memory->all_smaps, profile->smaps_count, memory->pid);
         i < profile->smaps_count && memory->all_smaps[i].pid == memory->pid; i++) {
        const struct profile_smaps *smaps = &profile->smaps[memory->all_smaps[i].index];
        const char *file = file_of_smaps(smaps);
        uint64_t id = intern_find(&memory->file_ids, file, strlen(file));
        const uint64_t range[] = {id, smaps->start_address, smaps->size_kb * 1024};
        memory->smaps[memory->smaps_count++] = smaps;
        id = id == 0 ? 0 : intern_find(&memory->range_ids, range, sizeof(range));
        if (id == 0 || memory->ranges[id - 1].seen == memory->seen_now)
            continue;
        memory->ranges[id - 1].seen = memory->seen_now;
        for (uint32_t at = memory->ranges[id - 1].first; at != 0;
             at = memory->here[at - 1].next_of_range)
            use_mapping(memory, at - 1);
    }
}

static int compare_mappings(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct written_mapping *here = context;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    if (here[left].at.start != here[right].at.start)
        return here[left].at.start < here[right].at.start ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* Take the addresses of used mappings without addresses from the heap; once for all of its
 * dumps. */
static void take_places(struct document *document, const struct profile_heap *heap)
{
    struct written_memory *memory = &document->memory;
    uint32_t *seen = &memory->heap_seen[heap - document->profile->heaps];
    for (size_t i = 0; i < heap->status.place_count && *seen != memory->seen_now; i++) {
        uint32_t at = (uint32_t)heap->status.places[i].mapping;
        struct profile_place place = profile_place_of(document->profile, heap, at);
        if (!memory->here[at].used)
            continue;
        memory->here[at].at.start = place.start;
        memory->here[at].at.end = place.end;
    }
    *seen = memory->seen_now;
}

/* Of overlapping mappings, of a program and a later one of the process, the lowest stays: an
 * address can be in only one. Frames of the others are named by file and address. */
static void place_mappings(struct document *document)
{
    struct written_memory *memory = &document->memory;
    size_t count = 0;
    for (size_t i = 0; i < memory->mapping_count; i++)
        memory->here[memory->mappings[i]].placed = false;
    memory->mapping_count = 0;
    for (size_t i = 0; i < memory->used_count; i++) {
        const struct profile_mapping *mapping = &memory->here[memory->used_mappings[i]].at;
        if (mapping->end > mapping->start)
            memory->mappings[count++] = memory->used_mappings[i];
    }
    if (count > 1)
        qsort_r(memory->mappings, count, sizeof(*memory->mappings), compare_mappings, memory->here);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = memory->mappings[i];
        size_t before = memory->mapping_count;
        if (before > 0 &&
            memory->here[at].at.start < memory->here[memory->mappings[before - 1]].at.end)
            continue;
        memory->mappings[memory->mapping_count++] = at;
        memory->here[at].placed = true;
    }
}

static int make_memory(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    size_t mappings = profile->mapping_count + 1;
    memory->here = calloc(mappings, sizeof(*memory->here));
    memory->used_mappings = calloc(mappings, sizeof(*memory->used_mappings));
    memory->mappings = calloc(mappings, sizeof(*memory->mappings));
    memory->regions = calloc(mappings, sizeof(*memory->regions));
    memory->ranges = calloc(mappings, sizeof(*memory->ranges));
    memory->smaps = calloc(profile->smaps_count + 1, sizeof(*memory->smaps));
    memory->seen = calloc(profile->callsite_count + 1, sizeof(*memory->seen));
    memory->heap_seen = calloc(profile->heap_count + 1, sizeof(*memory->heap_seen));
    if (memory->here == NULL || memory->used_mappings == NULL || memory->mappings == NULL ||
        memory->regions == NULL || memory->ranges == NULL || memory->smaps == NULL ||
        memory->seen == NULL || memory->heap_seen == NULL || sort_by_pid(document) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < profile->mapping_count; i++)
        memory->here[i].at = profile->mappings[i];
    return number_ranges(document);
}

void written_memory_free(struct written_memory *memory)
{
    free(memory->here);
    free(memory->used_mappings);
    free(memory->mappings);
    free(memory->regions);
    free(memory->ranges);
    free(memory->smaps);
    free(memory->seen);
    free(memory->heap_seen);
    free(memory->all_smaps);
    free(memory->all_processes);
    free(memory->all_snapshots);
    intern_free(&memory->file_ids);
    intern_free(&memory->range_ids);
}

int written_memory_collect(struct document *document, size_t first, size_t count)
{
    struct written_memory *memory = &document->memory;
    if (memory->here == NULL && make_memory(document) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < memory->used_count; i++) {
        uint32_t mapping = memory->used_mappings[i];
        memory->here[mapping].used = false;
        memory->here[mapping].at = document->profile->mappings[mapping];
    }
    memory->used_count = 0;
    memory->seen_now++;
    memory->pid = document->events[first].pid;
    for (size_t i = first; i < first + count; i++) {
        const struct written_event *event = &document->events[i];
        for (size_t j = event->first; j < event->first + event->count; j++) {
            const struct profile_dump *dump = document->dumps[j].dump;
            for (size_t k = 0; k < dump->sample_count; k++)
                mark_stack(document, dump->samples[k]->callsite);
        }
    }
    mark_snapshots(document);
    for (size_t i = first; i < first + count; i++) {
        const struct written_event *event = &document->events[i];
        for (size_t j = event->first; j < event->first + event->count; j++)
            take_places(document, document->dumps[j].heap);
    }
    place_mappings(document);
    return 0;
}

/* --- regions --- */

static uint64_t distance(uint64_t one, uint64_t other)
{
    return one > other ? one - other : other - one;
}

/* Return the time of the snapshot nearest to the event; UINT64_MAX: none. */
static uint64_t time_of_smaps(const struct document *document, const struct written_event *event)
{
    const struct written_memory *memory = &document->memory;
    uint64_t nearest = UINT64_MAX;
    for (size_t i = 0; i < memory->smaps_count; i++) {
        uint64_t boottime_ns = memory->smaps[i]->boottime_ns;
        if (nearest == UINT64_MAX ||
            distance(boottime_ns, event->boottime_ns) < distance(nearest, event->boottime_ns))
            nearest = boottime_ns;
    }
    return nearest;
}

/* Return the first placed mapping that overlaps a range; SIZE_MAX: none. */
static size_t overlapped(const struct document *document, uint64_t start, uint64_t end)
{
    const struct written_memory *memory = &document->memory;
    size_t at =
        SORTED_SEARCH(memory->mapping_count, i, memory->here[memory->mappings[i]].at.end <= start);
    return at < memory->mapping_count && memory->here[memory->mappings[at]].at.start < end
               ? at
               : SIZE_MAX;
}

/* The byte counts of a region: key in the file, and place in a snapshot's entry. */
static const struct {
    const char *key;
    enum profile_smaps_known known;
    size_t kb_offset;
} byte_counts[REGION_BYTE_COUNTS] = {
    {"pss", PROFILE_SMAPS_PROPORTIONAL, offsetof(struct profile_smaps, proportional_resident_kb)},
    {"pd", PROFILE_SMAPS_PRIVATE_DIRTY, offsetof(struct profile_smaps, private_dirty_kb)},
    {"pc", PROFILE_SMAPS_PRIVATE_CLEAN, offsetof(struct profile_smaps, private_clean_resident_kb)},
    {"sd", PROFILE_SMAPS_SHARED_DIRTY, offsetof(struct profile_smaps, shared_dirty_resident_kb)},
    {"sc", PROFILE_SMAPS_SHARED_CLEAN, offsetof(struct profile_smaps, shared_clean_resident_kb)},
    {"sw", PROFILE_SMAPS_SWAP, offsetof(struct profile_smaps, swap_kb)},
};

/* Unknown byte counts are left out. */
static void write_bytes(FILE *out, const struct written_region *region)
{
    const char *separator = "";
    for (size_t i = 0; i < REGION_BYTE_COUNTS; i++) {
        if ((region->known & byte_counts[i].known) == 0)
            continue;
        fprintf(out, "%s\"%s\"", separator, byte_counts[i].key);
        write_hex(out, ":", region->bytes[i]);
        separator = ",";
    }
}

static void write_region(FILE *out, const struct written_region *region, const char *separator)
{
    fputs(separator, out);
    write_hex(out, "{\"sa\":", region->start);
    write_hex(out, ",\"sz\":", region->size);
    fprintf(out, ",\"pf\":%" PRIu32 ",\"mf\":", region->protection);
    json_print_ascii_string(out, region->file);
    if (region->mapping != NULL) {
        write_hex(out, ",\"fo\":", region->mapping->exact_offset + region->mapping->load_bias);
        if (region->mapping->load_bias != 0)
            write_hex(out, ",\"heapprofd_bias\":", region->mapping->load_bias);
    }
    if (*region->build_id != '\0') {
        fputs(",\"id\":\"", out);
        for (const char *at = region->build_id; *at != '\0'; at++)
            if (isalnum((unsigned char)*at))
                fputc(toupper((unsigned char)*at), out);
        fputc('"', out);
    }
    fputs(",\"bs\":{", out);
    write_bytes(out, region);
    fputs("}}", out);
}

static struct written_region region_of_smaps(const struct profile_smaps *smaps)
{
    struct written_region region = {
        .file = file_of_smaps(smaps),
        .build_id = smaps->module_debugid,
        .start = smaps->start_address,
        .size = smaps->size_kb * 1024,
        .protection = smaps->protection_flags,
        .known = smaps->known,
    };
    for (size_t i = 0; i < REGION_BYTE_COUNTS; i++)
        region.bytes[i] =
            1024 * *(const uint64_t *)((const char *)smaps + byte_counts[i].kb_offset);
    return region;
}

static struct written_region region_of_code(const struct profile_mapping *mapping)
{
    return (struct written_region){
        .file = mapping->path,
        .build_id = mapping->build_id,
        .start = mapping->start,
        .size = mapping->end - mapping->start,
        .protection = CODE_PROTECTION,
        .mapping = mapping,
    };
}

/* Add the byte counts of a snapshot's region to the region of code that it overlaps. A sum is known
 * if all of its parts are. */
static void add_region(struct written_region *code, const struct written_region *region)
{
    if (!code->has_bytes && region->protection != 0)
        code->protection = region->protection;
    code->known = code->has_bytes ? code->known & region->known : region->known;
    code->has_bytes = true;
    for (size_t i = 0; i < REGION_BYTE_COUNTS; i++)
        code->bytes[i] += region->bytes[i];
}

/* Return the snapshot nearest to the event; NULL: none. */
static const struct memory_snapshot *nearest_snapshot(const struct document *document,
                                                      const struct written_event *event)
{
    const struct profile *profile = document->profile;
    const struct of_pid *items = document->memory.all_snapshots;
    const struct memory_snapshot *nearest = NULL;
    for (size_t i = first_of_pid(items, profile->memory_snapshot_count, event->pid);
         i < profile->memory_snapshot_count && items[i].pid == event->pid; i++) {
        const struct memory_snapshot *snapshot = &profile->memory_snapshots[items[i].index].values;
        if (nearest == NULL || distance(snapshot->boottime_ns, event->boottime_ns) <
                                   distance(nearest->boottime_ns, event->boottime_ns))
            nearest = snapshot;
    }
    return nearest;
}

/* The program's private memory by kind, by names that the viewer classifies. Of other kinds it is
 * not known what is shared with other processes. */
static const char *const private_kinds[MEMORY_KINDS] = {
    [MEMORY_ALLOCATOR] = "[heap]",
    [MEMORY_ANONYMOUS] = "[anon:mapped]",
    [MEMORY_THREAD_STACKS] = "[stack:threads]",
    [MEMORY_MAIN_STACK] = "[stack]",
    [MEMORY_FILES_WRITTEN] = "[files: written pages]",
    [MEMORY_OTHER_HEAPS] = "[anon:heaps]",
};

/* Write the sums by kind. Return the separator of the next region. */
static const char *write_kinds(struct document *document, const struct written_event *event,
                               const char *separator)
{
    const struct memory_snapshot *snapshot = nearest_snapshot(document, event);
    uint64_t nowhere = MEMORY_INFRA_NOWHERE;
    for (size_t i = 0; i < MEMORY_KINDS && snapshot != NULL; i++) {
        const struct memory_part *part = &snapshot->parts[i];
        if (private_kinds[i] == NULL || part->mapped_bytes == 0)
            continue;
        struct written_region region = {
            .file = private_kinds[i],
            .build_id = "",
            .start = nowhere,
            .size = part->mapped_bytes,
            .protection = DATA_PROTECTION,
            .known = PROFILE_SMAPS_PRIVATE_DIRTY | PROFILE_SMAPS_SWAP,
        };
        for (size_t j = 0; j < REGION_BYTE_COUNTS; j++)
            region.bytes[j] =
                byte_counts[j].known == PROFILE_SMAPS_SWAP ? part->swap_bytes : part->rss_bytes;
        nowhere += region.size;
        write_region(document->out, &region, separator);
        separator = ",\n";
    }
    return separator;
}

static void write_regions(struct document *document, const struct written_event *event)
{
    const struct written_memory *memory = &document->memory;
    uint64_t time = time_of_smaps(document, event);
    uint64_t nowhere = MEMORY_INFRA_NOWHERE;
    const char *separator = "\n";
    fputs("\"process_mmaps\":{\"vm_regions\":[", document->out);
    for (size_t i = 0; i < memory->mapping_count; i++)
        memory->regions[i] = region_of_code(&memory->here[memory->mappings[i]].at);
    for (size_t i = 0; i < memory->smaps_count; i++) {
        struct written_region region = region_of_smaps(memory->smaps[i]);
        if (memory->smaps[i]->boottime_ns != time)
            continue;
        bool placed = (region.known & PROFILE_SMAPS_START) != 0;
        if (!placed) {
            region.start = nowhere;
            nowhere += region.size;
        }
        size_t code =
            placed ? overlapped(document, region.start, region.start + region.size) : SIZE_MAX;
        if (code != SIZE_MAX) {
            add_region(&memory->regions[code], &region);
            continue;
        }
        write_region(document->out, &region, separator);
        separator = ",\n";
    }
    if (memory->smaps_count == 0)
        separator = write_kinds(document, event, separator);
    for (size_t i = 0; i < memory->mapping_count; i++) {
        write_region(document->out, &memory->regions[i], separator);
        separator = ",\n";
    }
    fputs("]},\n", document->out);
}

/* --- totals --- */

struct totals {
    uint64_t distance;                          /* in time, from the event */
    uint64_t resident, footprint, mapped, peak; /* footprint: anonymous, swapped out or not */
    uint64_t swapped;                           /* of snapshots only */
};

/* Take a point of the timeline, or a snapshot, if it is the nearest so far. */
static void take_totals(struct totals *nearest, const struct written_event *event,
                        uint64_t boottime_ns, const struct totals *totals)
{
    uint64_t away = distance(boottime_ns, event->boottime_ns);
    uint64_t peak = nearest->peak;
    if (totals->resident == 0)
        return;
    if (boottime_ns <= event->boottime_ns && totals->resident > peak)
        peak = totals->resident;
    if (away < nearest->distance) {
        *nearest = *totals;
        nearest->distance = away;
    }
    nearest->peak = peak;
}

static void take_timeline(const struct profile_process *process, const struct written_event *event,
                          struct totals *nearest)
{
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        const struct totals totals = {.resident = point->rss_bytes,
                                      .footprint = point->rss_anon_bytes,
                                      .mapped = point->vm_bytes};
        take_totals(nearest, event, point->boottime_ns, &totals);
    }
}

static void take_snapshot(const struct memory_snapshot *snapshot, const struct written_event *event,
                          struct totals *nearest)
{
    struct totals totals = {0};
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        if (i == MEMORY_PROFILER)
            continue;
        totals.resident += snapshot->parts[i].rss_bytes;
        totals.mapped += snapshot->parts[i].mapped_bytes;
        totals.swapped += snapshot->parts[i].swap_bytes;
        if (private_kinds[i] != NULL)
            totals.footprint += snapshot->parts[i].rss_bytes + snapshot->parts[i].swap_bytes;
    }
    take_totals(nearest, event, snapshot->boottime_ns, &totals);
}

static void write_totals(struct document *document, const struct written_event *event)
{
    const struct profile *profile = document->profile;
    struct totals nearest = {.distance = UINT64_MAX}, from_snapshots = nearest;
    const struct of_pid *processes = document->memory.all_processes;
    const struct of_pid *snapshots = document->memory.all_snapshots;
    for (size_t i = first_of_pid(processes, profile->process_count, event->pid);
         i < profile->process_count && processes[i].pid == event->pid; i++)
        take_timeline(&profile->processes[processes[i].index], event, &nearest);
    for (size_t i = first_of_pid(snapshots, profile->memory_snapshot_count, event->pid);
         i < profile->memory_snapshot_count && snapshots[i].pid == event->pid; i++) {
        take_snapshot(&profile->memory_snapshots[snapshots[i].index].values, event, &nearest);
        take_snapshot(&profile->memory_snapshots[snapshots[i].index].values, event,
                      &from_snapshots);
    }
    if (nearest.resident == 0)
        return;
    if (nearest.peak < nearest.resident)
        nearest.peak = nearest.resident;
    write_hex(document->out, "\"process_totals\":{\"resident_set_bytes\":", nearest.resident);
    write_hex(document->out, ",\"peak_resident_set_bytes\":", nearest.peak);
    fputs(",\"is_peak_rss_resetable\":false", document->out);
    if (nearest.footprint != 0)
        write_hex(document->out, ",\"private_footprint_bytes\":", nearest.footprint);
    if (nearest.mapped != 0)
        write_hex(document->out, ",\"vm\":", nearest.mapped);
    if (from_snapshots.distance != UINT64_MAX)
        write_hex(document->out, ",\"swp\":", from_snapshots.swapped);
    fputs("},\n", document->out);
}

void write_memory(struct document *document, const struct written_event *event)
{
    write_totals(document, event);
    write_regions(document, event);
}
