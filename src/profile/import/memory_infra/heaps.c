/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the profile's heaps, once the file has been read (state.h). Dumps are sorted by time,
 * whatever their order in the file. If a callsite has the same figures as in the heap's previous
 * dump, it keeps that dump's sample. The file has live figures only; they serve as the allocated
 * ones, too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/memory_infra/state.h"
#include "util/array.h"

#define HEAP_REMARK                                                                                \
    "The file has figures of live memory. Those of allocated and freed memory are lower bounds, "  \
    "from changes between dumps."
/* Number of callsites without live memory that are carried over to later dumps. A hostile file
 * could exhaust memory with them. */
#define IDLE_SAMPLES_MAX 2000000u
#define FEW_PARTS 16u

/* The parts of the profile, in order of time. */
struct making {
    struct importing *importing;
    uint32_t *order;        /* of parts, or of process dumps */
    double *heap_bytes;     /* by process dump: of all its heaps */
    struct id_map heap_ids; /* by process and name */
    struct heap_making {
        size_t dump_capacity;
        /* The latest sample of every callsite that a dump had, in order of callsites. */
        const struct profile_sample **known;
        size_t known_count;
    } * heaps; /* as in the profile */
    size_t heaps_capacity, heap_capacity;
    uint64_t idle;
    struct profile_part *parts; /* of a sample */
    size_t part_capacity;
    bool *continued; /* by part that the callsite had before */
    size_t continued_capacity;
    double first_us; /* of all dumps of all processes */
};

/* --- order --- */

/* Times of different processes can overlap: only times of the same process decide which event is
 * first. */
static int compare_process_dumps(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct import_process_dump *process_dumps =
        ((const struct making *)context)->importing->process_dumps;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    if (process_dumps[left].ts_us != process_dumps[right].ts_us)
        return process_dumps[left].ts_us < process_dumps[right].ts_us ? -1 : 1;
    return left < right ? -1 : left > right;
}

static double first_time(const struct importing *importing)
{
    double first_us = importing->process_dump_count == 0 ? 0 : importing->process_dumps[0].ts_us;
    for (size_t i = 1; i < importing->process_dump_count; i++)
        first_us = fmin(first_us, importing->process_dumps[i].ts_us);
    return first_us;
}

static int compare_parts(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct making *making = context;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    const struct import_part *parts = making->importing->parts;
    if (parts[left].process_dump != parts[right].process_dump)
        return compare_process_dumps(&parts[left].process_dump, &parts[right].process_dump,
                                     context);
    return left < right ? -1 : left > right;
}

/* --- processes --- */

static uint32_t make_process(struct importing *importing, const struct import_process *process)
{
    struct profile *profile = importing->builder->profile;
    const struct import_note *note = import_notes_process(importing, process->pid);
    uint32_t index = builder_process(importing->builder, process->pid);
    if (index == PROFILE_NONE)
        return index;
    struct profile_process *made = &profile->processes[index];
    if (process->name != NULL)
        made->name = made->first_argument = process->name;
    if (process->labels != NULL)
        made->command = process->labels;
    if (note == NULL)
        return index;
    if (note->name != NULL)
        made->name = made->first_argument = note->name;
    made->command = note->command != NULL ? note->command : made->command;
    made->parent_pid = note->parent_pid;
    made->uid = note->uid;
    made->has_uid = true;
    return index;
}

static int make_threads(struct importing *importing)
{
    struct builder *builder = importing->builder;
    struct profile *profile = builder->profile;
    for (size_t i = 0; i < importing->thread_count; i++) {
        const struct import_thread *thread = &importing->threads[i];
        uint64_t key = (uint64_t)(uint32_t)thread->pid << 32 | (uint32_t)thread->tid;
        uint32_t known = id_map_find(&builder->threads, key);
        if (id_map_find(&builder->processes, (uint32_t)thread->pid) == ID_MAP_NONE)
            continue;
        if (known != ID_MAP_NONE) {
            profile->threads[known].name = thread->name;
            continue;
        }
        if (ARRAY_RESERVE(&profile->threads, &builder->thread_capacity, profile->thread_count, 1) <
                0 ||
            id_map_set(&builder->threads, key, (uint32_t)profile->thread_count) < 0)
            return builder_fail(builder);
        profile->threads[profile->thread_count++] =
            (struct profile_thread){thread->tid, thread->pid, thread->name};
    }
    return 0;
}

/* --- sites to samples --- */

static int compare_sites(const void *left_pointer, const void *right_pointer)
{
    const struct import_site *left = left_pointer, *right = right_pointer;
    if (left->callsite != right->callsite)
        return left->callsite < right->callsite ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

/* Sort sites; each callsite and type has one. */
static void order_sites(struct import_part *part)
{
    struct import_site *sites = part->sites;
    size_t kept = 0, i = 1;
    while (i < part->count && compare_sites(&sites[i - 1], &sites[i]) < 0)
        i++;
    if (i >= part->count)
        return;
    qsort(sites, part->count, sizeof(*sites), compare_sites);
    for (i = 0; i < part->count; i++) {
        if (kept > 0 && compare_sites(&sites[kept - 1], &sites[i]) == 0) {
            sites[kept - 1].bytes += sites[i].bytes;
            sites[kept - 1].count += sites[i].count;
        } else {
            sites[kept++] = sites[i];
        }
    }
    part->count = kept;
}

/* Remove the innermost frame that memory_infra_write() added to the stacks of our own files. */
static int drop_allocator_frames(struct builder *builder, struct import_part *part,
                                 const char *name)
{
    uint32_t frame =
        builder_frame(builder, PROFILE_NONE, 0, builder_string(builder, name, strlen(name)), 0, 0);
    for (size_t i = 0; i < part->count && builder->error == 0; i++) {
        const struct profile_callsite *callsite =
            &builder->profile->callsites[part->sites[i].callsite];
        if (callsite->frame == frame && callsite->parent != PROFILE_NONE)
            part->sites[i].callsite = callsite->parent;
    }
    return builder->error;
}

/* Add the figures of a site to those of the previous dump. */
static struct trace_figures continue_figures(const struct trace_figures *before,
                                             const struct import_site *site, uint64_t interval)
{
    struct heap_estimate live = heap_estimate_of_scaled(site->bytes, site->count, interval);
    if (before == NULL)
        return heap_figures_of(&live, &live);
    double bytes = live.bytes - (before->allocated_bytes - before->freed_bytes);
    double count = live.count - (before->allocated_count - before->freed_count);
    struct heap_estimate allocated = {
        .bytes = before->allocated_bytes + (bytes > 0 ? bytes : 0),
        .count = before->allocated_count + (count > 0 ? count : 0),
        .bytes_variance = fmax(before->allocated_bytes_variance, live.bytes_variance),
        .count_variance = fmax(before->allocated_count_variance, live.count_variance),
        .samples = before->samples > live.samples ? before->samples : live.samples,
    };
    return heap_figures_of(&allocated, &live);
}

static bool is_same(const struct profile_sample *sample, const struct profile_sample *other)
{
    if (sample->part_count != other->part_count ||
        memcmp(&sample->figures, &other->figures, sizeof(sample->figures)) != 0)
        return false;
    for (uint32_t i = 0; i < sample->part_count; i++)
        if (sample->parts[i].type != other->parts[i].type ||
            memcmp(&sample->parts[i].figures, &other->parts[i].figures,
                   sizeof(sample->parts[i].figures)) != 0)
            return false;
    return true;
}

/* The figures of a callsite in the previous dump, by type. */
struct parts_before {
    const struct profile_part *parts;
    size_t count;
    struct id_map by_type; /* if there are many */
};

static int map_parts_before(struct parts_before *before)
{
    int code = 0;
    for (size_t i = 0; before->count > FEW_PARTS && i < before->count && code == 0; i++)
        code = id_map_set(&before->by_type, (uintptr_t)before->parts[i].type, (uint32_t)i);
    return code;
}

/* Return the index of a type in the previous dump, usually the same as in this one. PROFILE_NONE:
 * the callsite had none of it. */
static uint32_t find_before(const struct parts_before *before, const char *type, size_t place)
{
    if (place < before->count && before->parts[place].type == type)
        return (uint32_t)place;
    if (before->count > FEW_PARTS) {
        uint32_t known = id_map_find(&before->by_type, (uintptr_t)type);
        return known == ID_MAP_NONE ? PROFILE_NONE : known;
    }
    for (size_t i = 0; i < before->count; i++)
        if (before->parts[i].type == type)
            return (uint32_t)i;
    return PROFILE_NONE;
}

static void put_part(struct making *making, struct profile_sample *sample, const char *type,
                     const struct trace_figures *figures)
{
    making->parts[sample->part_count++] = (struct profile_part){
        .type = type, .context = making->importing->builder->strings[0], .figures = *figures};
    trace_figures_add(&sample->figures, figures);
    sample->tagged |= *type != '\0';
}

/* Make the sample of a callsite with `count` sites; 0: its memory has been freed. Its
 * parts are valid until the next call. */
static int sum_sites(struct making *making, const struct import_site *sites, size_t count,
                     const struct profile_sample *before, uint64_t interval,
                     struct profile_sample *sample)
{
    struct builder *builder = making->importing->builder;
    const struct trace_figures none = {0};
    const struct profile_part untyped = {.type = builder->strings[0],
                                         .figures = before == NULL ? none : before->figures};
    struct parts_before had = {
        .parts = before != NULL && before->part_count > 0 ? before->parts : &untyped,
        .count = before == NULL           ? 0
                 : before->part_count > 0 ? before->part_count
                                          : 1,
    };
    *sample = (struct profile_sample){.callsite = count > 0 ? sites[0].callsite : before->callsite};
    if (ARRAY_RESERVE(&making->parts, &making->part_capacity, 0, count + had.count) < 0 ||
        ARRAY_RESERVE(&making->continued, &making->continued_capacity, 0, had.count + 1) < 0 ||
        map_parts_before(&had) < 0) {
        id_map_free(&had.by_type);
        return builder_fail(builder);
    }
    memset(making->continued, 0, had.count);
    for (size_t i = 0; i < count; i++) {
        const char *type = builder->strings[sites[i].type];
        uint32_t place = find_before(&had, type, i);
        const struct trace_figures *figures_before =
            place == PROFILE_NONE ? NULL : &had.parts[place].figures;
        struct trace_figures figures = continue_figures(figures_before, &sites[i], interval);
        put_part(making, sample, type, &figures);
        if (place != PROFILE_NONE)
            making->continued[place] = true;
    }
    for (size_t i = 0; i < had.count; i++) {
        const struct import_site nothing = {.callsite = sample->callsite};
        if (making->continued[i])
            continue;
        struct trace_figures figures = continue_figures(&had.parts[i].figures, &nothing, interval);
        put_part(making, sample, had.parts[i].type, &figures);
    }
    id_map_free(&had.by_type);
    sample->parts = making->parts;
    if (!sample->tagged && sample->part_count == 1)
        sample->part_count = 0;
    return 0;
}

static const struct profile_sample *keep_sample(struct builder *builder,
                                                const struct profile_sample *sample)
{
    struct profile_sample *kept = builder_sample(builder);
    if (kept == NULL)
        return NULL;
    *kept = *sample;
    kept->parts = NULL;
    if (sample->part_count > 0) {
        struct profile_part *parts =
            builder_memory(builder, sample->part_count * sizeof(*sample->parts));
        if (parts == NULL)
            return NULL;
        memcpy(parts, sample->parts, sample->part_count * sizeof(*sample->parts));
        kept->parts = parts;
    }
    return kept;
}

static bool has_nothing(const struct profile_sample *sample)
{
    const struct trace_figures *figures = &sample->figures;
    return figures->allocated_bytes == figures->freed_bytes &&
           figures->allocated_count == figures->freed_count;
}

/* Return a callsite's sample in a dump: the previous one if nothing has changed. NULL: no
 * memory. */
static const struct profile_sample *next_sample(struct making *making,
                                                const struct import_site *sites, size_t count,
                                                const struct profile_sample *before,
                                                uint64_t interval)
{
    struct profile_sample sample;
    if (count == 0 && has_nothing(before))
        return before;
    if (sum_sites(making, sites, count, before, interval, &sample) < 0)
        return NULL;
    return before != NULL && is_same(before, &sample)
               ? before
               : keep_sample(making->importing->builder, &sample);
}

static void add_sample(struct profile_dump *dump, const struct profile_sample *sample)
{
    dump->samples[dump->sample_count++] = sample;
    dump->part_count += sample->part_count;
    trace_figures_add(&dump->total, &sample->figures);
}

/* Fill a dump by merging its sites with the heap's earlier callsites, both in order of callsites.
 * If a callsite is missing from the dump, its memory has been freed. */
static int fill_dump(struct making *making, struct heap_making *heap,
                     const struct import_part *part, uint64_t interval, struct profile_dump *dump)
{
    size_t most = part->count + heap->known_count + 1, count = 0, at = 0, next = 0;
    const struct profile_sample **known = reallocarray(NULL, most, sizeof(*known));
    dump->samples = reallocarray(NULL, most, sizeof(*dump->samples));
    if (known == NULL || dump->samples == NULL) {
        free(known);
        return builder_fail(making->importing->builder);
    }
    for (size_t i = 0; i < part->count || at < heap->known_count; i = next) {
        const struct profile_sample *before = at < heap->known_count ? heap->known[at] : NULL;
        for (next = i; next < part->count && part->sites[next].callsite == part->sites[i].callsite;)
            next++;
        if (before != NULL && next > i && before->callsite > part->sites[i].callsite)
            before = NULL;
        if (before != NULL && next > i && before->callsite < part->sites[i].callsite)
            next = i;
        at += before != NULL;
        const struct profile_sample *sample =
            next_sample(making, &part->sites[i], next - i, before, interval);
        if (sample == NULL)
            break;
        bool is_idle = next == i && sample == before;
        making->idle += is_idle;
        if (is_idle && making->idle > IDLE_SAMPLES_MAX)
            continue;
        known[count++] = sample;
        add_sample(dump, sample);
    }
    const struct profile_sample **fitting =
        reallocarray(dump->samples, dump->sample_count + 1, sizeof(*dump->samples));
    dump->samples = fitting == NULL ? dump->samples : fitting;
    free(heap->known);
    heap->known = known;
    heap->known_count = count;
    return making->importing->builder->error;
}

/* --- heaps --- */

static struct profile_heap *add_heap(struct making *making, const struct import_part *part,
                                     const struct import_note *note)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    struct profile *profile = builder->profile;
    const struct import_process *of =
        &importing->processes[importing->process_dumps[part->process_dump].process];
    uint32_t process = make_process(importing, of);
    if (process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->heaps, &making->heap_capacity, profile->heap_count, 1) < 0 ||
        ARRAY_RESERVE(&making->heaps, &making->heaps_capacity, profile->heap_count, 1) < 0) {
        builder_fail(builder);
        return NULL;
    }
    making->heaps[profile->heap_count] = (struct heap_making){0};
    struct profile_heap *heap = &profile->heaps[profile->heap_count++];
    *heap = (struct profile_heap){
        .process = process,
        .name = note != NULL && note->name != NULL ? note->name : builder->strings[part->name],
        .interval_bytes = note != NULL ? note->interval_bytes : importing->sampling_rate,
        .start_boottime_ns =
            note != NULL ? note->start_boottime_ns : import_nanoseconds(making->first_us),
        .unknown = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_TEMPORARY,
    };
    heap->first_interval_bytes = note != NULL && note->first_interval_bytes > 0
                                     ? note->first_interval_bytes
                                     : heap->interval_bytes;
    heap->status =
        note != NULL && note->losses != NULL ? *note->losses : (struct trace_heap_dump){0};
    heap->status.pid = of->pid;
    heap->status.heap_name = heap->name;
    heap->status.interval_bytes = heap->interval_bytes;
    heap->status.first_interval_bytes = heap->first_interval_bytes;
    heap->status.start_timestamp_ns = heap->start_boottime_ns;
    heap->status.exit_status = -1;
    heap->status.remark = HEAP_REMARK;
    heap->status.unseen_allocator = note != NULL ? note->unseen_allocator : NULL;
    heap->status.heap_samples = note != NULL ? note->samples : 0;
    heap->status.weighed_samples = note != NULL ? note->weighed_samples : 0;
    heap->unfinished = note != NULL && note->unfinished;
    heap->status.final = !heap->unfinished;
    return heap;
}

static int add_dump(struct making *making, size_t index, const struct import_part *part,
                    const struct import_note *note)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    struct profile_heap *heap = &builder->profile->heaps[index];
    const struct import_process_dump *process_dump = &importing->process_dumps[part->process_dump];
    const struct import_dump *of = &importing->dumps[process_dump->dump];
    const struct import_note *dump_note =
        note == NULL ? NULL : import_notes_dump(importing, note, builder->strings[of->id]);
    struct profile_dump dump = {.boottime_ns = import_nanoseconds(process_dump->ts_us),
                                .order = builder->dumps++};
    if (dump_note != NULL) {
        dump.boottime_ns = dump_note->boottime_ns;
        dump.exact_bytes = dump_note->exact_bytes;
        dump.exact_calls = dump_note->exact_calls;
        dump.final = dump_note->final;
        dump.incomplete = dump_note->incomplete;
        dump.disagrees = dump_note->disagrees;
        dump.unexplained = dump_note->unexplained;
        heap->status.disconnected = dump_note->ended;
    }
    dump.start_boottime_ns = heap->dump_count > 0 ? heap->dumps[heap->dump_count - 1].boottime_ns
                                                  : heap->start_boottime_ns;
    if (ARRAY_RESERVE(&heap->dumps, &making->heaps[index].dump_capacity, heap->dump_count, 1) < 0)
        return builder_fail(builder);
    if (fill_dump(making, &making->heaps[index], part, heap->interval_bytes, &dump) < 0) {
        free(dump.samples);
        return builder->error;
    }
    making->heap_bytes[part->process_dump] += dump.total.allocated_bytes - dump.total.freed_bytes;
    heap->status.timestamp_ns = dump.boottime_ns;
    heap->status.exact_bytes = dump.exact_bytes;
    heap->status.exact_calls = dump.exact_calls;
    heap->dumps[heap->dump_count++] = dump;
    return 0;
}

static int make_part(struct making *making, struct import_part *part)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    uint32_t process = importing->process_dumps[part->process_dump].process;
    const struct import_note *note = import_notes_heap(importing, importing->processes[process].pid,
                                                       builder->strings[part->name]);
    uint64_t key = (uint64_t)process << 32 | part->name;
    uint32_t index = id_map_find(&making->heap_ids, key);
    if (note != NULL && note->allocator_frame != NULL &&
        drop_allocator_frames(builder, part, note->allocator_frame) < 0)
        return builder->error;
    order_sites(part);
    if (index == ID_MAP_NONE) {
        index = (uint32_t)builder->profile->heap_count;
        if (add_heap(making, part, note) == NULL || id_map_set(&making->heap_ids, key, index) < 0)
            return builder_fail(builder);
    }
    int code = add_dump(making, index, part, note);
    import_part_free(part);
    part->rows = NULL;
    part->sites = NULL;
    return code;
}

static int make_parts(struct making *making)
{
    struct importing *importing = making->importing;
    struct profile *profile = importing->builder->profile;
    int code = 0;
    for (size_t i = 0; i < importing->part_count; i++)
        making->order[i] = (uint32_t)i;
    qsort_r(making->order, importing->part_count, sizeof(*making->order), compare_parts, making);
    for (size_t i = 0; i < importing->part_count && code == 0; i++)
        code = make_part(making, &importing->parts[making->order[i]]);
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].dump_count > 0)
            profile->heaps[i].dumps[profile->heaps[i].dump_count - 1].final =
                !profile->heaps[i].unfinished;
    return code;
}

/* --- processes, threads and timelines --- */

static int make_timelines(struct making *making)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    for (size_t i = 0; i < importing->process_dump_count; i++)
        making->order[i] = (uint32_t)i;
    qsort_r(making->order, importing->process_dump_count, sizeof(*making->order),
            compare_process_dumps, making);
    for (size_t i = 0; i < importing->process_dump_count; i++) {
        uint32_t index = making->order[i];
        const struct import_process_dump *process_dump = &importing->process_dumps[index];
        uint32_t process = make_process(importing, &importing->processes[process_dump->process]);
        if (process == PROFILE_NONE)
            return builder->error;
        double rss = process_dump->has_totals ? process_dump->rss_bytes
                                              : (double)process_dump->regions.resident_bytes;
        struct profile_memory_point point = {
            .boottime_ns = import_nanoseconds(process_dump->ts_us),
            .rss_bytes = rss < 0x1p63 ? (uint64_t)rss : 0,
            .vm_bytes = process_dump->vm_bytes < 0x1p63 ? (uint64_t)process_dump->vm_bytes : 0,
            .rss_anon_bytes = process_dump->footprint_bytes < 0x1p63
                                  ? (uint64_t)process_dump->footprint_bytes
                                  : 0,
            .heap_bytes =
                making->heap_bytes[index] < 0x1p63 ? (uint64_t)making->heap_bytes[index] : 0,
            .rss_file_bytes = PROFILE_UNKNOWN_BYTES,
            .rss_shmem_bytes = PROFILE_UNKNOWN_BYTES,
            .profiler_bytes = PROFILE_UNKNOWN_BYTES,
            .swap_bytes = PROFILE_UNKNOWN_BYTES,
        };
        struct profile_process *made = &builder->profile->processes[process];
        if (point.rss_bytes == 0)
            continue;
        if (ARRAY_RESERVE(&made->timeline, &builder->timeline_capacities[process],
                          made->timeline_count, 1) < 0)
            return builder_fail(builder);
        made->timeline[made->timeline_count++] = point;
    }
    return 0;
}

int import_make_heaps(struct importing *importing)
{
    struct making making = {.importing = importing};
    size_t most = importing->process_dump_count + importing->part_count + 1;
    int code;
    making.order = reallocarray(NULL, most, sizeof(*making.order));
    making.heap_bytes = calloc(importing->process_dump_count + 1, sizeof(*making.heap_bytes));
    if (making.order == NULL || making.heap_bytes == NULL) {
        code = builder_fail(importing->builder);
    } else {
        making.first_us = first_time(importing);
        code = make_parts(&making);
        if (code == 0)
            code = make_timelines(&making);
        if (code == 0)
            code = make_threads(importing);
    }
    id_map_free(&making.heap_ids);
    for (size_t i = 0; making.heaps != NULL && i < importing->builder->profile->heap_count; i++)
        free(making.heaps[i].known);
    free(making.heaps);
    free(making.parts);
    free(making.continued);
    free(making.order);
    free(making.heap_bytes);
    return code;
}
