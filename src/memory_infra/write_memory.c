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

static const char *file_of_look(const struct profile_smaps *smaps)
{
    return *smaps->file_name != '\0' ? smaps->file_name : smaps->path;
}

/* Lists the looks at the process's mappings. What they have as code is told like code that stacks
 * lead through: a file that was read has both, and is written as it was. */
static int mark_looked_at(struct document *document)
{
    const struct profile *profile = document->profile;
    struct written_memory *memory = &document->memory;
    struct intern_table files = {0}, looked_at = {0};
    int code = 0;
    memory->smaps_count = 0;
    for (size_t i = 0; i < profile->smaps_count && code == 0; i++) {
        const struct profile_smaps *smaps = &profile->smaps[i];
        const char *file = file_of_look(smaps);
        bool added;
        if (profile->processes[smaps->process].pid != memory->pid)
            continue;
        memory->smaps[memory->smaps_count++] = smaps;
        uint64_t id = intern_bytes(&files, file, strlen(file), &added);
        const uint64_t range[] = {id, smaps->start_address, smaps->size_kb * 1024};
        if (id == 0 || intern_bytes(&looked_at, range, sizeof(range), &added) == 0)
            code = -ENOMEM;
    }
    for (size_t i = 0; i < profile->mapping_count && looked_at.count > 0; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        uint64_t id = intern_find(&files, mapping->path, strlen(mapping->path));
        const uint64_t range[] = {id, mapping->start, mapping->end - mapping->start};
        if (id != 0 && intern_find(&looked_at, range, sizeof(range)) != 0)
            memory->used[i] = true;
    }
    intern_free(&files);
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
        memory->regions = calloc(profile->mapping_count + 1, sizeof(*memory->regions));
        memory->smaps = calloc(profile->smaps_count + 1, sizeof(*memory->smaps));
        memory->seen = calloc(profile->callsite_count + 1, sizeof(*memory->seen));
    }
    if (memory->used == NULL || memory->placed == NULL || memory->mappings == NULL ||
        memory->regions == NULL || memory->smaps == NULL || memory->seen == NULL)
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

/* The time of the look at the mappings that is nearest to the event; UINT64_MAX: there is none. */
static uint64_t time_of_look(const struct document *document, const struct written_event *event)
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

/* The placed mapping that a range overlaps first; SIZE_MAX: none. */
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

/* What is not known is left out. */
static void write_bytes(FILE *out, const struct written_region *region)
{
    const struct {
        const char *key;
        enum profile_smaps_told told;
        uint64_t bytes;
    } kinds[] = {
        {"pss", PROFILE_SMAPS_PROPORTIONAL, region->proportional},
        {"pd", PROFILE_SMAPS_PRIVATE_DIRTY, region->private_dirty},
        {"pc", PROFILE_SMAPS_PRIVATE_CLEAN, region->private_clean},
        {"sd", PROFILE_SMAPS_SHARED_DIRTY, region->shared_dirty},
        {"sc", PROFILE_SMAPS_SHARED_CLEAN, region->shared_clean},
        {"sw", PROFILE_SMAPS_SWAP, region->swapped},
    };
    const char *separator = "";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if ((region->told & kinds[i].told) == 0)
            continue;
        fprintf(out, "%s\"%s\"", separator, kinds[i].key);
        write_hex(out, ":", kinds[i].bytes);
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

static struct written_region region_of_look(const struct profile_smaps *smaps)
{
    return (struct written_region){
        .file = file_of_look(smaps),
        .build_id = smaps->module_debugid,
        .start = smaps->start_address,
        .size = smaps->size_kb * 1024,
        .protection = smaps->protection_flags,
        .proportional = smaps->proportional_resident_kb * 1024,
        .private_dirty = smaps->private_dirty_kb * 1024,
        .private_clean = smaps->private_clean_resident_kb * 1024,
        .shared_dirty = smaps->shared_dirty_resident_kb * 1024,
        .shared_clean = smaps->shared_clean_resident_kb * 1024,
        .swapped = smaps->swap_kb * 1024,
        .told = smaps->told,
    };
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

/* What a look says of something that overlaps a mapping of code is the mapping's. A sum is known
 * where all of its parts are. */
static void add_look(struct written_region *region, const struct written_region *look)
{
    if (!region->looked_at && look->protection != 0)
        region->protection = look->protection;
    region->told = region->looked_at ? region->told & look->told : look->told;
    region->looked_at = true;
    region->proportional += look->proportional;
    region->private_dirty += look->private_dirty;
    region->private_clean += look->private_clean;
    region->shared_dirty += look->shared_dirty;
    region->shared_clean += look->shared_clean;
    region->swapped += look->swapped;
}

static void write_regions(struct document *document, const struct written_event *event)
{
    const struct written_memory *memory = &document->memory;
    uint64_t time = time_of_look(document, event);
    uint64_t nowhere = MEMORY_INFRA_NOWHERE;
    const char *separator = "\n";
    fputs("\"process_mmaps\":{\"vm_regions\":[", document->out);
    for (size_t i = 0; i < memory->mapping_count; i++)
        memory->regions[i] = region_of_code(&document->profile->mappings[memory->mappings[i]]);
    for (size_t i = 0; i < memory->smaps_count; i++) {
        struct written_region look = region_of_look(memory->smaps[i]);
        if (memory->smaps[i]->boottime_ns != time)
            continue;
        bool placed = (look.told & PROFILE_SMAPS_START) != 0;
        if (!placed) {
            look.start = nowhere;
            nowhere += look.size;
        }
        size_t code = placed ? overlapped(document, look.start, look.start + look.size) : SIZE_MAX;
        if (code != SIZE_MAX) {
            add_look(&memory->regions[code], &look);
            continue;
        }
        write_region(document->out, &look, separator);
        separator = ",\n";
    }
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
    uint64_t swapped;                           /* of looks only */
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
    struct totals told = {0};
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        told.resident += look->parts[i].rss_bytes;
        told.mapped += look->parts[i].mapped_bytes;
        told.swapped += look->parts[i].swap_bytes;
        if (is_private[i])
            told.footprint += look->parts[i].rss_bytes + look->parts[i].swap_bytes;
    }
    take_totals(nearest, event, look->boottime_ns, &told);
}

static void write_totals(struct document *document, const struct written_event *event)
{
    const struct profile *profile = document->profile;
    struct totals nearest = {.distance = UINT64_MAX}, looked_at = nearest;
    for (size_t i = 0; i < profile->process_count; i++)
        if (profile->processes[i].pid == event->pid)
            take_timeline(&profile->processes[i], event, &nearest);
    for (size_t i = 0; i < profile->look_count; i++)
        if (is_of(document, profile->looks[i].process, event->pid)) {
            take_look(&profile->looks[i].look, event, &nearest);
            take_look(&profile->looks[i].look, event, &looked_at);
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
    if (looked_at.distance != UINT64_MAX)
        write_hex(document->out, ",\"swp\":", looked_at.swapped);
    fputs("},\n", document->out);
}

void write_memory(struct document *document, const struct written_event *event)
{
    write_totals(document, event);
    write_regions(document, event);
}
