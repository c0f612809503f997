/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as they are read (state.h). An event names its process only at its end; its contents are
 * kept aside until then.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/memory_infra/state.h"
#include "util/array.h"

void importing_problem(struct importing *importing, const struct error *problem)
{
    if (importing->problems++ == 0)
        importing->problem = *problem;
}

static const char *text_of(struct importing *importing, struct memory_infra_text text)
{
    return builder_text(importing->builder, text.at, text.length);
}

/* The answer of a callback that may have run out of memory. */
static int answer(struct importing *importing, int code)
{
    return code < 0 ? builder_fail(importing->builder) : importing->builder->error;
}

/* --- contents of events --- */

static int on_problem(void *context, const struct error *problem)
{
    importing_problem(context, problem);
    return 0;
}

static int on_string(void *context, uint64_t id, struct memory_infra_text text)
{
    struct importing *importing = context;
    uint32_t string = builder_string(importing->builder, text.at, text.length);
    return answer(importing, stack_maps_add_string(&importing->event_maps, id, string));
}

static int on_node(void *context, const struct memory_infra_node *node)
{
    struct importing *importing = context;
    importing->resolver.callsites_max++;
    return answer(importing, stack_maps_add_node(&importing->event_maps, node));
}

static int on_type(void *context, uint64_t id, uint64_t name)
{
    struct importing *importing = context;
    return answer(importing, stack_maps_add_type(&importing->event_maps, id, name));
}

static int on_heap(void *context, const struct memory_infra_heap *heap)
{
    struct importing *importing = context;
    struct import_part part = {
        .name = builder_string(importing->builder, heap->name.at, heap->name.length),
        .event = importing->events,
        .offset = heap->begin,
        .count = heap->count,
    };
    part.rows = reallocarray(NULL, heap->count + 1, sizeof(*part.rows));
    if (part.rows == NULL || ARRAY_ADD(&importing->event_parts, &importing->event_part_count,
                                       &importing->event_part_capacity, part) < 0) {
        free(part.rows);
        return builder_fail(importing->builder);
    }
    for (size_t i = 0; i < heap->count; i++)
        part.rows[i] =
            (struct import_row){heap->nodes[i], heap->types[i], heap->sizes[i], heap->counts[i]};
    return importing->builder->error;
}

static int on_region(void *context, const struct memory_infra_region *region)
{
    struct importing *importing = context;
    const char *file = text_of(importing, region->file);
    struct profile_smaps smaps = {
        .path = file,
        .file_name = "",
        .module_debugid = text_of(importing, region->build_id),
        .module_debug_path = text_of(importing, region->debug_path),
        .size_kb = region->size / 1024,
        .private_dirty_kb = region->private_dirty / 1024,
        .swap_kb = region->swapped / 1024,
        .start_address = region->start,
        .module_timestamp = region->timestamp,
        .private_clean_resident_kb = region->private_clean / 1024,
        .shared_dirty_resident_kb = region->shared_dirty / 1024,
        .shared_clean_resident_kb = region->shared_clean / 1024,
        .proportional_resident_kb = region->proportional / 1024,
        .protection_flags = region->protection,
        .known = region->known | PROFILE_SMAPS_START,
    };
    bool nowhere = region->start >= MEMORY_INFRA_NOWHERE;
    if (nowhere) {
        smaps.start_address = 0;
        smaps.known &= ~(uint32_t)PROFILE_SMAPS_START;
    }
    if (ARRAY_ADD(&importing->event_smaps, &importing->event_smaps_count,
                  &importing->event_smaps_capacity, smaps) < 0)
        return builder_fail(importing->builder);
    return nowhere ? 0 : region_set_add(&importing->event_regions, importing->builder, region);
}

/* Sizes that a process reports of its outermost allocators, and of itself, stand beside the heaps:
 * Chrome reports many allocators, and has backtraces of few. */

/* Return the row of a name in the event, which is the last one or new; NULL: no memory. */
static struct profile_reported *row_of(struct importing *importing, struct memory_infra_text name,
                                       bool is_allocator)
{
    const char *text = builder_text(importing->builder, name.at, name.length);
    struct profile_reported *last =
        importing->event_reported_count == 0
            ? NULL
            : &importing->event_reported[importing->event_reported_count - 1];
    if (last != NULL && last->is_allocator == is_allocator && strcmp(last->name, text) == 0)
        return last;
    const struct profile_reported fresh = {
        .name = text, .is_allocator = is_allocator, .size_bytes = NAN, .effective_bytes = NAN};
    if (ARRAY_ADD(&importing->event_reported, &importing->event_reported_count,
                  &importing->event_reported_capacity, fresh) < 0)
        return NULL;
    return &importing->event_reported[importing->event_reported_count - 1];
}

/* The attributes of an allocator are together. What "global" has belongs to no process. */
static int on_attribute(void *context, const struct memory_infra_attribute *attribute)
{
    struct importing *importing = context;
    const struct memory_infra_text name = attribute->allocator;
    bool is_size = memory_infra_text_is(attribute->name, "size"),
         is_effective = memory_infra_text_is(attribute->name, "effective_size");
    if (!attribute->scalar || (!is_size && !is_effective) ||
        !memory_infra_text_is(attribute->units, "bytes") || name.length == 0 ||
        memchr(name.at, '/', name.length) != NULL || memory_infra_text_is(name, "global"))
        return 0;
    struct profile_reported *row = row_of(importing, name, true);
    if (row == NULL)
        return builder_fail(importing->builder);
    *(is_size ? &row->size_bytes : &row->effective_bytes) = attribute->value;
    return 0;
}

static int take_reported_total(struct importing *importing, struct memory_infra_text name,
                               double value)
{
    /* Chrome has renamed totals over time. */
    static const struct {
        const char *of_chrome, *name;
    } totals[] = {
        {"private_footprint_bytes", "private_footprint"},
        {"peak_resident_set_bytes", "peak_resident"},
        {"peak_resident_set_size", "peak_resident"},
    };
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        const struct memory_infra_text ours = {totals[i].name, strlen(totals[i].name)};
        if (!memory_infra_text_is(name, totals[i].of_chrome))
            continue;
        struct profile_reported *row = row_of(importing, ours, false);
        if (row == NULL)
            return builder_fail(importing->builder);
        row->size_bytes = value;
    }
    return importing->builder->error;
}

/* Chrome has renamed totals over time. */
static int on_total(void *context, struct memory_infra_text name, double value)
{
    struct importing *importing = context;
    if (memory_infra_text_is(name, "resident_set_bytes") ||
        memory_infra_text_is(name, "resident_set_size")) {
        importing->event_rss_bytes = value;
        importing->event_has_totals = true;
    } else if (memory_infra_text_is(name, "vm") || memory_infra_text_is(name, "vm_size")) {
        importing->event_vm_bytes = value;
    } else if (memory_infra_text_is(name, "private_footprint_bytes")) {
        importing->event_footprint_bytes = value;
    }
    return take_reported_total(importing, name, value);
}

static int on_metadata(void *context, struct memory_infra_text key, struct memory_infra_text inner,
                       struct memory_infra_text value)
{
    struct importing *importing = context;
    return answer(importing, import_notes_take(importing, key, inner, value));
}

/* --- processes and dumps --- */

/* IMPORT_NONE: no memory. */
static uint32_t process_of(struct importing *importing, int64_t pid)
{
    uint32_t known = id_map_find(&importing->process_ids, (uint32_t)pid);
    if (known != ID_MAP_NONE)
        return known;
    size_t used = importing->process_count;
    if (ARRAY_RESERVE(&importing->processes, &importing->process_capacity, used, 1) < 0 ||
        id_map_set(&importing->process_ids, (uint32_t)pid, (uint32_t)used) < 0) {
        builder_fail(importing->builder);
        return IMPORT_NONE;
    }
    importing->processes[importing->process_count++] = (struct import_process){
        .pid = (int32_t)pid, .last_dump = IMPORT_NONE, .first_waiting = IMPORT_NONE};
    return (uint32_t)used;
}

/* Find the dump of an id; an event without an id is a separate dump. */
static uint32_t dump_of(struct importing *importing, const struct memory_infra_event *event)
{
    uint32_t id = builder_string(importing->builder, event->id.at, event->id.length);
    uint32_t known = id == 0 ? ID_MAP_NONE : id_map_find(&importing->dump_ids, id);
    if (known != ID_MAP_NONE)
        return known;
    size_t used = importing->dump_count;
    if (ARRAY_RESERVE(&importing->dumps, &importing->dump_capacity, used, 1) < 0 ||
        (id != 0 && id_map_set(&importing->dump_ids, id, (uint32_t)used) < 0)) {
        builder_fail(importing->builder);
        return IMPORT_NONE;
    }
    importing->dumps[importing->dump_count++] = (struct import_dump){id};
    return (uint32_t)used;
}

static uint32_t process_dump_of(struct importing *importing, uint32_t dump, uint32_t process,
                                const struct memory_infra_event *event)
{
    uint64_t key = (uint64_t)dump << 32 | process;
    uint32_t known = id_map_find(&importing->process_dump_ids, key);
    double ts_us = isfinite(event->ts_us) ? event->ts_us : 0;
    if (known != ID_MAP_NONE) {
        struct import_process_dump *process_dump = &importing->process_dumps[known];
        process_dump->ts_us = ts_us < process_dump->ts_us ? ts_us : process_dump->ts_us;
        return known;
    }
    size_t used = importing->process_dump_count;
    if (ARRAY_RESERVE(&importing->process_dumps, &importing->process_dump_capacity, used, 1) < 0 ||
        id_map_set(&importing->process_dump_ids, key, (uint32_t)used) < 0) {
        builder_fail(importing->builder);
        return IMPORT_NONE;
    }
    importing->process_dumps[importing->process_dump_count++] =
        (struct import_process_dump){.dump = dump,
                                     .process = process,
                                     .before = IMPORT_NONE,
                                     .after = IMPORT_NONE,
                                     .ts_us = ts_us};
    return (uint32_t)used;
}

static void complain(struct importing *importing, const struct memory_infra_event *event,
                     const char *what, const char *name)
{
    struct error problem;
    error_set(&problem, -EBADMSG, "at byte %" PRIu64 ", in event %" PRIu64 ": %s%.100s",
              event->begin, event->number, what, name);
    importing_problem(importing, &problem);
}

/* --- the end of an event --- */

/* Add the event's maps to the process's. Parts wait for maps that may come, but not if ids change
 * their meaning: resolve them first. */
static int merge_maps(struct importing *importing, uint32_t index)
{
    struct stack_maps *maps = &importing->processes[index].maps;
    struct stack_maps *event_maps = &importing->event_maps;
    if (!event_maps->any)
        return 0;
    enum stack_change change = stack_maps_compare(maps, event_maps);
    if (change == STACK_UNCHANGED)
        return 0;
    if (change == STACK_REDEFINED && import_resolve_rest(importing, index) < 0)
        return importing->builder->error;
    if (change == STACK_REDEFINED)
        stack_maps_forget_callsites(maps);
    return answer(importing, stack_maps_merge(maps, event_maps));
}

static int take_regions(struct importing *importing, uint32_t index,
                        const struct memory_infra_event *event)
{
    struct builder *builder = importing->builder;
    struct import_process_dump *process_dump = &importing->process_dumps[index];
    if (importing->event_smaps_count == 0)
        return 0;
    if (process_dump->has_regions) {
        complain(importing, event, "this process has regions in this dump already", "");
        return 0;
    }
    if (region_set_finish(&importing->event_regions, builder) < 0)
        return builder->error;
    process_dump->regions = importing->event_regions;
    importing->event_regions = (struct region_set){0};
    process_dump->has_regions = true;
    process_dump->before = importing->processes[process_dump->process].last_dump;
    if (process_dump->before != IMPORT_NONE)
        importing->process_dumps[process_dump->before].after = index;
    if (process_dump->before != IMPORT_NONE &&
        importing->process_dumps[process_dump->before].regions.code == process_dump->regions.code)
        process_dump->before = importing->process_dumps[process_dump->before].before;
    importing->processes[process_dump->process].last_dump = index;
    uint32_t process = builder_process(builder, importing->processes[process_dump->process].pid);
    struct profile *profile = builder->profile;
    if (process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->smaps, &builder->smaps_capacity, profile->smaps_count,
                      importing->event_smaps_count) < 0)
        return builder_fail(builder);
    for (size_t i = 0; i < importing->event_smaps_count; i++) {
        struct profile_smaps *smaps = &profile->smaps[profile->smaps_count++];
        *smaps = importing->event_smaps[i];
        smaps->process = process;
        smaps->boottime_ns = import_nanoseconds(process_dump->ts_us);
    }
    return 0;
}

/* Append a waiting part to the list of its process. */
static void await_part(struct importing *importing, uint32_t index)
{
    struct import_part *part = &importing->parts[index];
    struct import_process *process =
        &importing->processes[importing->process_dumps[part->process_dump].process];
    if (part->resolved)
        return;
    if (process->first_waiting == IMPORT_NONE)
        process->first_waiting = index;
    else
        importing->parts[process->last_waiting].next_waiting = index;
    process->last_waiting = index;
}

static int take_part(struct importing *importing, uint32_t process_dump, struct import_part *part,
                     const struct memory_infra_event *event)
{
    struct builder *builder = importing->builder;
    uint64_t key = (uint64_t)process_dump << 32 | part->name;
    uint32_t index = (uint32_t)importing->part_count;
    if (id_map_find(&importing->part_ids, key) != ID_MAP_NONE) {
        complain(importing, event,
                 "this process has this heap in this dump already: ", builder->strings[part->name]);
        return builder->error;
    }
    part->process_dump = process_dump;
    part->next_waiting = IMPORT_NONE;
    if (id_map_set(&importing->part_ids, key, index) < 0 ||
        ARRAY_ADD(&importing->parts, &importing->part_count, &importing->part_capacity, *part) < 0)
        return builder_fail(builder);
    *part = (struct import_part){0};
    import_resolve_part(importing, &importing->parts[index], false);
    await_part(importing, index);
    return builder->error;
}

static int take_reported(struct importing *importing, uint32_t index)
{
    const struct import_process_dump *process_dump = &importing->process_dumps[index];
    struct builder *builder = importing->builder;
    struct profile *profile = builder->profile;
    if (importing->event_reported_count == 0)
        return 0;
    uint32_t process = builder_process(builder, importing->processes[process_dump->process].pid);
    if (process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->reported, &importing->reported_capacity, profile->reported_count,
                      importing->event_reported_count) < 0)
        return builder_fail(builder);
    for (size_t i = 0; i < importing->event_reported_count; i++) {
        struct profile_reported *row = &profile->reported[profile->reported_count++];
        *row = importing->event_reported[i];
        row->process = process;
        row->boottime_ns = import_nanoseconds(process_dump->ts_us);
    }
    return 0;
}

static int take_dump(struct importing *importing, uint32_t process,
                     const struct memory_infra_event *event)
{
    importing->memory_dumps++;
    uint32_t dump = dump_of(importing, event);
    uint32_t index =
        dump == IMPORT_NONE ? IMPORT_NONE : process_dump_of(importing, dump, process, event);
    if (index == IMPORT_NONE || take_regions(importing, index, event) < 0)
        return importing->builder->error;
    struct import_process_dump *process_dump = &importing->process_dumps[index];
    if (importing->event_has_totals && !process_dump->has_totals) {
        process_dump->has_totals = true;
        process_dump->rss_bytes = importing->event_rss_bytes;
        process_dump->vm_bytes = importing->event_vm_bytes;
        process_dump->footprint_bytes = importing->event_footprint_bytes;
    }
    if (take_reported(importing, index) < 0)
        return importing->builder->error;
    for (size_t i = 0; i < importing->event_part_count && importing->builder->error == 0; i++)
        take_part(importing, index, &importing->event_parts[i], event);
    return importing->builder->error;
}

static int take_metadata_event(struct importing *importing, uint32_t index,
                               const struct memory_infra_event *event)
{
    struct import_process *process = &importing->processes[index];
    if (memory_infra_text_is(event->name, "process_name")) {
        process->name = text_of(importing, event->argument_name);
    } else if (memory_infra_text_is(event->name, "process_labels")) {
        process->labels = text_of(importing, event->argument_labels);
    } else if (memory_infra_text_is(event->name, "thread_name") && event->tid != INT64_MIN) {
        if (ARRAY_RESERVE(&importing->threads, &importing->thread_capacity, importing->thread_count,
                          1) < 0)
            return builder_fail(importing->builder);
        importing->threads[importing->thread_count++] = (struct import_thread){
            process->pid, (int32_t)event->tid, text_of(importing, event->argument_name)};
    }
    return importing->builder->error;
}

static int take_event(struct importing *importing, const struct memory_infra_event *event)
{
    bool dump = event->has_dumps && (memory_infra_text_is(event->phase, "v") ||
                                     memory_infra_text_is(event->phase, "V"));
    bool metadata = memory_infra_text_is(event->phase, "M");
    if (!dump && !metadata)
        return 0;
    if (event->pid == INT64_MIN) {
        if (dump)
            complain(importing, event, "a memory dump without a pid", "");
        return 0;
    }
    uint32_t index = process_of(importing, event->pid);
    if (index == IMPORT_NONE || merge_maps(importing, index) < 0)
        return importing->builder->error;
    return dump ? take_dump(importing, index, event) : take_metadata_event(importing, index, event);
}

void import_clear_event(struct importing *importing)
{
    stack_maps_clear(&importing->event_maps);
    importing->event_maps.of_event = true;
    region_set_free(&importing->event_regions);
    importing->event_regions = (struct region_set){0};
    importing->event_smaps_count = importing->event_reported_count = 0;
    for (size_t i = 0; i < importing->event_part_count; i++)
        import_part_free(&importing->event_parts[i]);
    importing->event_part_count = 0;
    importing->event_has_totals = false;
    importing->event_rss_bytes = importing->event_vm_bytes = importing->event_footprint_bytes = 0;
}

static int on_event_begin(void *context, uint64_t number, uint64_t offset)
{
    (void)number;
    (void)offset;
    import_clear_event(context);
    return 0;
}

static int on_event_end(void *context, const struct memory_infra_event *event)
{
    struct importing *importing = context;
    importing->events++;
    if (!event->spoilt)
        take_event(importing, event);
    import_clear_event(importing);
    return importing->builder->error;
}

const struct memory_infra_visitor import_visitor = {
    .event_begin = on_event_begin,
    .event_end = on_event_end,
    .problem = on_problem,
    .string = on_string,
    .node = on_node,
    .type = on_type,
    .heap = on_heap,
    .region = on_region,
    .total = on_total,
    .attribute = on_attribute,
    .metadata = on_metadata,
};
