/*
 * See write.h: what an event says of a process's memory as a whole.
 *
 * Regions are those of code that stacks lead through, and all mappings where the trace has looks at
 * them (SmapsPacket). `fo` is the ELF's own address of where a region begins, which is right for
 * whatever is linked in whatever way.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory_infra/write_private.h"
#include "util/json.h"

/* Of code: read and execute. */
#define CODE_PROTECTION 5

/* --- which mappings --- */

static void mark_stack(struct document *document, uint32_t callsite)
{
    const struct profile *profile = document->profile;
    bool *seen = document->memory.seen;
    for (; callsite != PROFILE_NONE && !seen[callsite];
         callsite = profile->callsites[callsite].parent) {
        uint32_t mapping = profile->frames[profile->callsites[callsite].frame].mapping;
        seen[callsite] = true;
        if (mapping != PROFILE_NONE)
            document->memory.used[mapping] = true;
    }
}

/* What a look at the process's mappings has as code is told like code that stacks lead through: a
 * file that was read has both, and is written as it was. */
static int mark_looked_at(struct document *document)
{
    const struct profile *profile = document->profile;
    struct intern_table looked_at = {0};
    int code = 0;
    for (size_t i = 0; i < profile->smaps_count && code == 0; i++) {
        const struct profile_smaps *smaps = &profile->smaps[i];
        const uint64_t range[] = {smaps->start_address, smaps->size_kb * 1024};
        bool added;
        if (profile->processes[smaps->process].pid == document->memory.pid &&
            intern_bytes(&looked_at, range, sizeof(range), &added) == 0)
            code = -ENOMEM;
    }
    for (size_t i = 0; i < profile->mapping_count && looked_at.count > 0; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        const uint64_t range[] = {mapping->start, mapping->end - mapping->start};
        if (intern_find(&looked_at, range, sizeof(range)) != 0)
            document->memory.used[i] = true;
    }
    intern_free(&looked_at);
    return code;
}

static int compare_mappings(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct profile_mapping *mappings = context;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    if (mappings[left].start != mappings[right].start)
        return mappings[left].start < mappings[right].start ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* Of mappings that overlap, of a program and what the process ran after it, the lowest stays: an
 * address can be in one only. Frames of the others are named by file and address. */
static void place_mappings(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    size_t count = 0;
    memory->mapping_count = 0;
    memset(memory->placed, 0, profile->mapping_count * sizeof(*memory->placed));
    for (size_t i = 0; i < profile->mapping_count; i++)
        if (memory->used[i] && profile->mappings[i].end > profile->mappings[i].start)
            memory->mappings[count++] = (uint32_t)i;
    if (count > 1)
        qsort_r(memory->mappings, count, sizeof(*memory->mappings), compare_mappings,
                profile->mappings);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = memory->mappings[i];
        size_t before = memory->mapping_count;
        if (before > 0 &&
            profile->mappings[at].start < profile->mappings[memory->mappings[before - 1]].end)
            continue;
        memory->mappings[memory->mapping_count++] = at;
        memory->placed[at] = true;
    }
}

int written_memory_collect(struct document *document, size_t first, size_t count)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    if (memory->used == NULL) {
        memory->used = calloc(profile->mapping_count + 1, sizeof(*memory->used));
        memory->placed = calloc(profile->mapping_count + 1, sizeof(*memory->placed));
        memory->mappings = calloc(profile->mapping_count + 1, sizeof(*memory->mappings));
        memory->seen = calloc(profile->callsite_count + 1, sizeof(*memory->seen));
    }
    if (memory->used == NULL || memory->placed == NULL || memory->mappings == NULL ||
        memory->seen == NULL)
        return -ENOMEM;
    memset(memory->used, 0, profile->mapping_count * sizeof(*memory->used));
    memset(memory->seen, 0, profile->callsite_count * sizeof(*memory->seen));
    memory->pid = document->events[first].pid;
    for (size_t i = first; i < first + count; i++) {
        const struct written_event *event = &document->events[i];
        for (size_t j = event->first; j < event->first + event->count; j++) {
            const struct profile_dump *dump = document->dumps[j].dump;
            for (size_t k = 0; k < dump->sample_count; k++)
                mark_stack(document, dump->samples[k]->callsite);
        }
    }
    int code = mark_looked_at(document);
    place_mappings(document);
    return code;
}

/* --- regions --- */

static uint64_t distance(uint64_t one, uint64_t other)
{
    return one > other ? one - other : other - one;
}

static bool is_of(const struct document *document, uint32_t process, int32_t pid)
{
    return document->profile->processes[process].pid == pid;
}

/* The time of the look at the mappings that is nearest to the event; false: there is none. */
static bool find_smaps(const struct document *document, const struct written_event *event,
                       uint64_t *boottime_ns)
{
    const struct profile *profile = document->profile;
    bool found = false;
    for (size_t i = 0; i < profile->smaps_count; i++) {
        const struct profile_smaps *smaps = &profile->smaps[i];
        if (!is_of(document, smaps->process, event->pid))
            continue;
        if (!found || distance(smaps->boottime_ns, event->boottime_ns) <
                          distance(*boottime_ns, event->boottime_ns))
            *boottime_ns = smaps->boottime_ns;
        found = true;
    }
    return found;
}

/* The placed mapping that a range overlaps first; SITES_NONE: none. */
static size_t overlapped(const struct document *document, uint64_t start, uint64_t end)
{
    const struct written_memory *memory = &document->memory;
    size_t low = 0, high = memory->mapping_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (document->profile->mappings[memory->mappings[middle]].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < memory->mapping_count &&
                   document->profile->mappings[memory->mappings[low]].start < end
               ? low
               : SIZE_MAX;
}

struct region {
    const char *file, *build_id;
    uint64_t start, size;
    uint32_t protection;
    const struct profile_mapping *mapping; /* NULL: where it lies in its file is not known */
    bool seen;                             /* in a look */
    uint64_t proportional, private_dirty, private_clean, shared_dirty, shared_clean, swapped;
};

static void write_region(FILE *out, const struct region *region, bool first)
{
    fputs(first ? "\n" : ",\n", out);
    write_hex(out, "{\"sa\":", region->start);
    write_hex(out, ",\"sz\":", region->size);
    fprintf(out, ",\"pf\":%" PRIu32 ",\"mf\":", region->protection);
    json_print_string(out, region->file);
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
    if ((region->proportional | region->private_dirty | region->private_clean |
         region->shared_dirty | region->shared_clean | region->swapped) != 0) {
        write_hex(out, "\"pss\":", region->proportional);
        write_hex(out, ",\"pd\":", region->private_dirty);
        write_hex(out, ",\"pc\":", region->private_clean);
        write_hex(out, ",\"sd\":", region->shared_dirty);
        write_hex(out, ",\"sc\":", region->shared_clean);
        write_hex(out, ",\"sw\":", region->swapped);
    }
    fputs("}}", out);
}

static void add_smaps(struct region *region, const struct profile_smaps *smaps)
{
    region->seen = true;
    region->proportional += smaps->proportional_resident_kb * 1024;
    region->private_dirty += smaps->private_dirty_kb * 1024;
    region->private_clean += smaps->private_clean_resident_kb * 1024;
    region->shared_dirty += smaps->shared_dirty_resident_kb * 1024;
    region->shared_clean += smaps->shared_clean_resident_kb * 1024;
    region->swapped += smaps->swap_kb * 1024;
}

/* A mapping of code, with what the looks say of all that overlaps it. */
static struct region region_of_code(const struct document *document, size_t index,
                                    const struct written_event *event, uint64_t smaps_ns)
{
    const struct profile *profile = document->profile;
    const struct profile_mapping *mapping = &profile->mappings[document->memory.mappings[index]];
    struct region region = {
        .file = mapping->path,
        .build_id = mapping->build_id,
        .start = mapping->start,
        .size = mapping->end - mapping->start,
        .protection = CODE_PROTECTION,
        .mapping = mapping,
    };
    for (size_t i = 0; i < profile->smaps_count; i++) {
        const struct profile_smaps *smaps = &profile->smaps[i];
        if (smaps->boottime_ns != smaps_ns || !is_of(document, smaps->process, event->pid) ||
            overlapped(document, smaps->start_address,
                       smaps->start_address + smaps->size_kb * 1024) != index)
            continue;
        if (!region.seen && smaps->protection_flags != 0)
            region.protection = smaps->protection_flags;
        add_smaps(&region, smaps);
    }
    return region;
}

static void write_regions(struct document *document, const struct written_event *event)
{
    const struct profile *profile = document->profile;
    uint64_t smaps_ns = 0;
    bool has_smaps = find_smaps(document, event, &smaps_ns), first = true;
    fputs("\"process_mmaps\":{\"vm_regions\":[", document->out);
    for (size_t i = 0; i < document->memory.mapping_count; i++) {
        struct region region =
            region_of_code(document, i, event, has_smaps ? smaps_ns : UINT64_MAX);
        write_region(document->out, &region, first);
        first = false;
    }
    for (size_t i = 0; has_smaps && i < profile->smaps_count; i++) {
        const struct profile_smaps *smaps = &profile->smaps[i];
        struct region region = {
            .file = *smaps->file_name != '\0' ? smaps->file_name : smaps->path,
            .build_id = smaps->module_debugid,
            .start = smaps->start_address,
            .size = smaps->size_kb * 1024,
            .protection = smaps->protection_flags,
        };
        if (smaps->boottime_ns != smaps_ns || !is_of(document, smaps->process, event->pid) ||
            overlapped(document, region.start, region.start + region.size) != SIZE_MAX)
            continue;
        add_smaps(&region, smaps);
        write_region(document->out, &region, first);
        first = false;
    }
    fputs("]},\n", document->out);
}

/* --- totals --- */

struct totals {
    uint64_t distance;                          /* in time, from the event */
    uint64_t resident, footprint, mapped, peak; /* footprint: anonymous, swapped out or not */
};

/* A point of the timeline, or a look: the nearest one counts. */
static void take_totals(struct totals *nearest, const struct written_event *event,
                        uint64_t boottime_ns, const struct totals *told)
{
    uint64_t away = distance(boottime_ns, event->boottime_ns);
    uint64_t peak = nearest->peak;
    if (told->resident == 0)
        return;
    if (boottime_ns <= event->boottime_ns && told->resident > peak)
        peak = told->resident;
    if (away < nearest->distance) {
        *nearest = *told;
        nearest->distance = away;
    }
    nearest->peak = peak;
}

static void take_timeline(const struct profile_process *process, const struct written_event *event,
                          struct totals *nearest)
{
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        const struct totals told = {.resident = point->rss_bytes,
                                    .footprint = point->rss_anon_bytes,
                                    .mapped = point->vm_bytes};
        take_totals(nearest, event, point->boottime_ns, &told);
    }
}

static void take_look(const struct memory_look *look, const struct written_event *event,
                      struct totals *nearest)
{
    static const bool is_private[MEMORY_KINDS] = {
        [MEMORY_ALLOCATOR] = true,  [MEMORY_ANONYMOUS] = true,     [MEMORY_THREAD_STACKS] = true,
        [MEMORY_MAIN_STACK] = true, [MEMORY_FILES_WRITTEN] = true,
    };
    struct totals told = {.resident = memory_look_rss(look)};
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        told.mapped += look->parts[i].mapped_bytes;
        if (is_private[i])
            told.footprint += look->parts[i].rss_bytes + look->parts[i].swap_bytes;
    }
    take_totals(nearest, event, look->boottime_ns, &told);
}

static void write_totals(struct document *document, const struct written_event *event)
{
    const struct profile *profile = document->profile;
    struct totals nearest = {.distance = UINT64_MAX};
    for (size_t i = 0; i < profile->process_count; i++)
        if (profile->processes[i].pid == event->pid)
            take_timeline(&profile->processes[i], event, &nearest);
    for (size_t i = 0; i < profile->look_count; i++)
        if (is_of(document, profile->looks[i].process, event->pid))
            take_look(&profile->looks[i].look, event, &nearest);
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
    fputs("},\n", document->out);
}

void write_memory(struct document *document, const struct written_event *event)
{
    write_totals(document, event);
    write_regions(document, event);
}
