/*
 * See importing.h: the profile's heaps, once all of the file has been read. Dumps stand in order of
 * time, whatever their order in the file; what a callsite has as it had it in the heap's dump
 * before is the same sample. The file says what was live, and that is all: it stands for allocated,
 * too.
 */
#include <stdlib.h>
#include <string.h>

#include "import/heap_figures.h"
#include "memory_infra/importing.h"
#include "profile/rollup.h"
#include "util/array.h"

#define HEAP_REMARK "The file says what was live, not what had been allocated and freed before."

/* What is made, in order of time. */
struct making {
    struct importing *importing;
    uint32_t *ranks;         /* by dump */
    uint32_t *order;         /* of parts, or of looks */
    double *heap_bytes;      /* by look: of all its heaps */
    struct id_map heap_ids;  /* by process and name */
    size_t *dump_capacities; /* by heap */
    size_t dump_capacity_capacity, heap_capacity;
    struct profile_part *parts; /* of a sample */
    size_t part_capacity;
    double first_us; /* of the file's dumps */
};

static uint64_t nanoseconds(double us)
{
    return us > 0 && us < 0x1p53 ? (uint64_t)(us * 1000) : 0;
}

/* --- order --- */

static int compare_dumps(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct import_dump *dumps = context;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    if (dumps[left].ts_us != dumps[right].ts_us)
        return dumps[left].ts_us < dumps[right].ts_us ? -1 : 1;
    return left < right ? -1 : left > right;
}

static void rank_dumps(struct making *making)
{
    const struct importing *importing = making->importing;
    for (size_t i = 0; i < importing->dump_count; i++)
        making->order[i] = (uint32_t)i;
    qsort_r(making->order, importing->dump_count, sizeof(*making->order), compare_dumps,
            importing->dumps);
    for (size_t i = 0; i < importing->dump_count; i++)
        making->ranks[making->order[i]] = (uint32_t)i;
    making->first_us = importing->dump_count == 0 ? 0 : importing->dumps[making->order[0]].ts_us;
}

static uint32_t rank_of_look(const struct making *making, uint32_t look)
{
    return making->ranks[making->importing->looks[look].dump];
}

static int compare_looks(const void *left_pointer, const void *right_pointer, void *context)
{
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    uint32_t left_rank = rank_of_look(context, left), right_rank = rank_of_look(context, right);
    if (left_rank != right_rank)
        return left_rank < right_rank ? -1 : 1;
    return left < right ? -1 : left > right;
}

static int compare_parts(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct making *making = context;
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    const struct import_part *parts = making->importing->parts;
    if (parts[left].look != parts[right].look)
        return compare_looks(&parts[left].look, &parts[right].look, context);
    return left < right ? -1 : left > right;
}

/* --- processes --- */

static uint32_t make_process(struct importing *importing, const struct import_process *process)
{
    struct profile *profile = importing->builder->profile;
    const struct import_process_note *note = import_notes_process(importing, process->pid);
    uint32_t index = builder_process(importing->builder, process->pid);
    if (index == PROFILE_NONE)
        return index;
    struct profile_process *made = &profile->processes[index];
    if (process->name != NULL)
        made->name = process->name;
    if (process->labels != NULL)
        made->command = process->labels;
    if (note == NULL)
        return index;
    made->name = note->name != NULL ? note->name : made->name;
    made->command = note->command != NULL ? note->command : made->command;
    made->parent_pid = note->parent_pid;
    made->uid = note->uid;
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
        if (array_reserve(&profile->threads, &builder->thread_capacity, profile->thread_count, 1,
                          sizeof(*profile->threads)) < 0 ||
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
    const struct heap_site *left = left_pointer, *right = right_pointer;
    if (left->callsite != right->callsite)
        return left->callsite < right->callsite ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

/* In order, each callsite and type once. */
static void order_sites(struct import_part *part)
{
    struct heap_site *sites = part->sites;
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

/* Files of ours end stacks with a frame that is not the profile's. */
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

static struct trace_figures figures_of(const struct heap_site *site, uint64_t interval)
{
    struct heap_estimate live = heap_estimate_of_scaled(site->bytes, site->count, interval);
    return heap_figures_of(&live, &live);
}

static bool is_same(const struct profile_sample *sample, const struct profile_sample *other)
{
    if (sample->callsite != other->callsite || sample->part_count != other->part_count ||
        memcmp(&sample->figures, &other->figures, sizeof(sample->figures)) != 0)
        return false;
    for (uint32_t i = 0; i < sample->part_count; i++)
        if (sample->parts[i].type != other->parts[i].type ||
            memcmp(&sample->parts[i].figures, &other->parts[i].figures,
                   sizeof(sample->parts[i].figures)) != 0)
            return false;
    return true;
}

/* The sample of `count` sites with one callsite. Its parts stand until the next one. */
static int sum_sites(struct making *making, const struct heap_site *sites, size_t count,
                     uint64_t interval, struct profile_sample *sample)
{
    struct builder *builder = making->importing->builder;
    *sample = (struct profile_sample){.callsite = sites[0].callsite};
    if (count == 1 && sites[0].type == 0) {
        sample->figures = figures_of(&sites[0], interval);
        return 0;
    }
    if (array_reserve(&making->parts, &making->part_capacity, 0, count, sizeof(*making->parts)) < 0)
        return builder_fail(builder);
    for (size_t i = 0; i < count; i++) {
        making->parts[i] = (struct profile_part){.type = builder->strings[sites[i].type],
                                                 .context = builder->strings[0],
                                                 .figures = figures_of(&sites[i], interval)};
        rollup_figures_add(&sample->figures, &making->parts[i].figures);
    }
    sample->parts = making->parts;
    sample->part_count = (uint32_t)count;
    sample->tagged = true;
    return 0;
}

static const struct profile_sample *keep_sample(struct builder *builder,
                                                const struct profile_sample *sample)
{
    struct profile_sample *kept = builder_sample(builder);
    if (kept == NULL)
        return NULL;
    *kept = *sample;
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

/* Both dumps' samples stand in order of callsites. */
static int fill_dump(struct making *making, const struct import_part *part, uint64_t interval,
                     const struct profile_dump *before, struct profile_dump *dump)
{
    struct builder *builder = making->importing->builder;
    dump->samples = reallocarray(NULL, part->count + 1, sizeof(struct profile_sample *));
    if (dump->samples == NULL)
        return builder_fail(builder);
    for (size_t i = 0, next, at = 0; i < part->count && builder->error == 0; i = next) {
        struct profile_sample sample;
        for (next = i + 1; next < part->count; next++)
            if (part->sites[next].callsite != part->sites[i].callsite)
                break;
        if (sum_sites(making, &part->sites[i], next - i, interval, &sample) < 0)
            break;
        while (before != NULL && at < before->sample_count &&
               before->samples[at]->callsite < sample.callsite)
            at++;
        bool same =
            before != NULL && at < before->sample_count && is_same(before->samples[at], &sample);
        const struct profile_sample *kept =
            same ? before->samples[at] : keep_sample(builder, &sample);
        if (kept == NULL)
            break;
        dump->samples[dump->sample_count++] = kept;
        dump->part_count += kept->part_count;
        rollup_figures_add(&dump->total, &kept->figures);
    }
    return builder->error;
}

/* --- heaps --- */

static struct profile_heap *add_heap(struct making *making, const struct import_part *part,
                                     const struct import_heap_note *note)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    struct profile *profile = builder->profile;
    const struct import_process *of = &importing->processes[importing->looks[part->look].process];
    uint32_t process = make_process(importing, of);
    if (process == PROFILE_NONE ||
        array_reserve(&profile->heaps, &making->heap_capacity, profile->heap_count, 1,
                      sizeof(*profile->heaps)) < 0 ||
        array_reserve(&making->dump_capacities, &making->dump_capacity_capacity,
                      profile->heap_count, 1, sizeof(*making->dump_capacities)) < 0) {
        builder_fail(builder);
        return NULL;
    }
    making->dump_capacities[profile->heap_count] = 0;
    struct profile_heap *heap = &profile->heaps[profile->heap_count++];
    *heap = (struct profile_heap){
        .process = process,
        .name = note != NULL && note->name != NULL ? note->name : builder->strings[part->name],
        .interval_bytes = note != NULL ? note->interval_bytes : importing->sampling_rate,
        .start_boottime_ns = note != NULL ? note->start_boottime_ns : nanoseconds(making->first_us),
    };
    heap->first_interval_bytes = note != NULL && note->first_interval_bytes > 0
                                     ? note->first_interval_bytes
                                     : heap->interval_bytes;
    heap->status = (struct trace_heap_dump){
        .pid = of->pid,
        .heap_name = heap->name,
        .interval_bytes = heap->interval_bytes,
        .first_interval_bytes = heap->first_interval_bytes,
        .start_timestamp_ns = heap->start_boottime_ns,
        .final = true,
        .exit_status = -1,
        .remark = HEAP_REMARK,
    };
    return heap;
}

static int add_dump(struct making *making, size_t index, const struct import_part *part,
                    const struct import_heap_note *note)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    struct profile_heap *heap = &builder->profile->heaps[index];
    const struct import_dump *of = &importing->dumps[importing->looks[part->look].dump];
    const struct import_dump_note *said =
        note == NULL ? NULL : import_notes_dump(importing, note, builder->strings[of->id]);
    struct profile_dump dump = {.boottime_ns = nanoseconds(of->ts_us), .order = builder->dumps++};
    if (said != NULL) {
        dump.boottime_ns = said->boottime_ns;
        dump.exact_bytes = said->exact_bytes;
        dump.exact_calls = said->exact_calls;
        dump.final = said->final;
        dump.incomplete = said->incomplete;
    }
    if (array_reserve(&heap->dumps, &making->dump_capacities[index], heap->dump_count, 1,
                      sizeof(dump)) < 0)
        return builder_fail(builder);
    const struct profile_dump *before =
        heap->dump_count == 0 ? NULL : &heap->dumps[heap->dump_count - 1];
    if (fill_dump(making, part, heap->interval_bytes, before, &dump) < 0) {
        free(dump.samples);
        return builder->error;
    }
    making->heap_bytes[part->look] += dump.total.allocated_bytes;
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
    uint32_t process = importing->looks[part->look].process;
    const struct import_heap_note *note = import_notes_heap(
        importing, importing->processes[process].pid, builder->strings[part->name]);
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
            profile->heaps[i].dumps[profile->heaps[i].dump_count - 1].final = true;
    return code;
}

/* --- what is not of heaps --- */

static int make_timelines(struct making *making)
{
    struct importing *importing = making->importing;
    struct builder *builder = importing->builder;
    for (size_t i = 0; i < importing->look_count; i++)
        making->order[i] = (uint32_t)i;
    qsort_r(making->order, importing->look_count, sizeof(*making->order), compare_looks, making);
    for (size_t i = 0; i < importing->look_count; i++) {
        uint32_t index = making->order[i];
        const struct import_look *look = &importing->looks[index];
        uint32_t process = make_process(importing, &importing->processes[look->process]);
        if (process == PROFILE_NONE)
            return builder->error;
        double rss = look->has_totals ? look->rss_bytes : (double)look->regions.resident_bytes;
        struct profile_memory_point point = {
            .boottime_ns = nanoseconds(importing->dumps[look->dump].ts_us),
            .rss_bytes = rss < 0x1p63 ? (uint64_t)rss : 0,
            .vm_bytes = look->vm_bytes < 0x1p63 ? (uint64_t)look->vm_bytes : 0,
            .heap_bytes =
                making->heap_bytes[index] < 0x1p63 ? (uint64_t)making->heap_bytes[index] : 0,
        };
        struct profile_process *made = &builder->profile->processes[process];
        if (point.rss_bytes == 0)
            continue;
        if (array_reserve(&made->timeline, &builder->timeline_capacities[process],
                          made->timeline_count, 1, sizeof(point)) < 0)
            return builder_fail(builder);
        made->timeline[made->timeline_count++] = point;
    }
    return 0;
}

int import_make_heaps(struct importing *importing)
{
    struct making making = {.importing = importing};
    size_t most = importing->dump_count + importing->look_count + importing->part_count + 1;
    int code;
    making.ranks = reallocarray(NULL, importing->dump_count + 1, sizeof(*making.ranks));
    making.order = reallocarray(NULL, most, sizeof(*making.order));
    making.heap_bytes = calloc(importing->look_count + 1, sizeof(*making.heap_bytes));
    if (making.ranks == NULL || making.order == NULL || making.heap_bytes == NULL) {
        code = builder_fail(importing->builder);
    } else {
        rank_dumps(&making);
        code = make_parts(&making);
        if (code == 0)
            code = make_timelines(&making);
        if (code == 0)
            code = make_threads(importing);
    }
    id_map_free(&making.heap_ids);
    free(making.dump_capacities);
    free(making.parts);
    free(making.ranks);
    free(making.order);
    free(making.heap_bytes);
    return code;
}
