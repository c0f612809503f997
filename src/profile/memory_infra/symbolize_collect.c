/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first pass of symbolize.h. An event names its process only at its end: until then its
 * contents are kept aside. What remains of an event are its `pc:` strings, their uses by nodes, and
 * the process's regions if they are new.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/symbolize_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"
#include "util/keyed_hash.h"

/* Inserted ids are numbers that a double holds exactly. */
#define ID_MAX (UINT64_C(1) << 52)

struct event_string {
    uint64_t id, address; /* MEMORY_INFRA_NONE: it is no `pc:` text */
};

struct collector {
    struct memory_infra_symbols *symbols;
    size_t problems;
    /* Of the event. */
    struct event_string *strings;
    size_t string_count, string_capacity;
    uint64_t *names; /* string ids of nodes */
    size_t name_count, name_capacity;
    uint64_t *type_names;
    size_t type_count, type_capacity;
    struct region_list regions;
    struct memory_infra_range *maps;
    size_t maps_count, maps_capacity;
};

/* --- texts --- */

uint32_t texts_add(struct texts *texts, const char *text, size_t length)
{
    bool added;
    uint64_t id = intern_bytes(&texts->ids, text, length, &added);
    if (id == 0 || id >= NONE)
        return NONE;
    if (!added)
        return (uint32_t)id - 1;
    char *copy = malloc(length + 1);
    if (copy == NULL || ARRAY_RESERVE(&texts->items, &texts->capacity, texts->count, 1) < 0) {
        free(copy);
        return NONE;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    texts->items[texts->count] = copy;
    return (uint32_t)texts->count++;
}

void texts_free(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    intern_free(&texts->ids);
    *texts = (struct texts){0};
}

/* --- the contents of an event --- */

static void see_id(struct collector *at, uint64_t id)
{
    if (id != MEMORY_INFRA_NONE && id >= at->symbols->next_id)
        at->symbols->next_id = id + 1;
}

static int take_string(void *context, uint64_t id, struct memory_infra_text text,
                       struct memory_infra_range range)
{
    struct collector *at = context;
    struct event_string string = {.id = id, .address = MEMORY_INFRA_NONE};
    (void)range;
    see_id(at, id);
    memory_infra_read_pc(text, &string.address);
    return ARRAY_ADD(&at->strings, &at->string_count, &at->string_capacity, string);
}

static int take_node(void *context, const struct memory_infra_node *node)
{
    struct collector *at = context;
    see_id(at, node->id);
    see_id(at, node->parent);
    see_id(at, node->name_sid);
    return ARRAY_ADD(&at->names, &at->name_count, &at->name_capacity, node->name_sid);
}

static int take_type(void *context, uint64_t id, uint64_t name_sid)
{
    struct collector *at = context;
    see_id(at, id);
    see_id(at, name_sid);
    return ARRAY_ADD(&at->type_names, &at->type_count, &at->type_capacity, name_sid);
}

static int take_maps(void *context, struct memory_infra_range range)
{
    struct collector *at = context;
    return ARRAY_ADD(&at->maps, &at->maps_count, &at->maps_capacity, range);
}

static int take_region(void *context, const struct memory_infra_region *region)
{
    struct collector *at = context;
    struct region_list *list = &at->regions;
    struct texts *texts = &at->symbols->texts;
    if (region->size == 0 || region->size > UINT64_MAX - region->start)
        return 0;
    struct vm_region kept = {
        .start = region->start,
        .end = region->start + region->size,
        .offset = region->file_offset,
        .has_offset = region->has_file_offset,
        .file = texts_add(texts, region->file.at, region->file.length),
        .build_id = texts_add(texts, region->build_id.at, region->build_id.length),
    };
    if (kept.file == NONE || kept.build_id == NONE ||
        ARRAY_ADD(&list->items, &list->count, &list->capacity, kept) < 0)
        return -ENOMEM;
    return 0;
}

static int take_problem(void *context, const struct error *problem)
{
    struct collector *at = context;
    if (at->problems++ == 0)
        snprintf(at->symbols->warning, sizeof(at->symbols->warning), "%s", problem->message);
    return 0;
}

static int begin_event(void *context, uint64_t number, uint64_t offset)
{
    struct collector *at = context;
    (void)number;
    (void)offset;
    at->string_count = at->name_count = at->type_count = 0;
    at->regions.count = at->maps_count = 0;
    return 0;
}

/* --- regions --- */

static int compare_regions(const void *a, const void *b)
{
    const struct vm_region *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Sort regions; of overlapping ones, keep the first. Each gets the first region of its file's
 * mapping: that of the file's previous region, unless another file is between them or offsets begin
 * again. */
static void finish_regions(struct region_list *list, const struct texts *texts)
{
    size_t kept = 0, last = SIZE_MAX;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare_regions);
    list->hash = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct vm_region region = list->items[i];
        if (kept > 0 && region.start < list->items[kept - 1].end)
            continue;
        region.first = (uint32_t)kept;
        if (texts->items[region.file][0] != '\0') {
            const struct vm_region *before = last == SIZE_MAX ? NULL : &list->items[last];
            if (before != NULL && before->file == region.file &&
                before->build_id == region.build_id &&
                !(before->has_offset && region.has_offset && region.offset < before->offset))
                region.first = before->first;
            last = kept;
        }
        const uint64_t parts[] = {region.start, region.end, region.has_offset ? region.offset : 1,
                                  region.file, region.build_id};
        for (size_t j = 0; j < sizeof(parts) / sizeof(*parts); j++)
            list->hash = keyed_hash(list->hash ^ parts[j]);
        list->items[kept++] = region;
    }
    list->count = kept;
}

/* Find or add the process's list with these regions, which is moved out of the collector. */
static int add_regions(struct collector *at, struct dump_process *process, uint32_t event,
                       uint32_t *index)
{
    struct region_list *list = &at->regions;
    *index = NONE;
    if (list->count == 0)
        return 0;
    finish_regions(list, &at->symbols->texts);
    uint32_t known = id_map_find(&process->list_ids, list->hash);
    if (known != ID_MAP_NONE && process->lists[known].count == list->count) {
        *index = known;
        return 0;
    }
    if (ARRAY_RESERVE(&process->lists, &process->list_capacity, process->list_count, 1) < 0 ||
        id_map_set(&process->list_ids, list->hash, (uint32_t)process->list_count) < 0)
        return -ENOMEM;
    list->event = event;
    *index = (uint32_t)process->list_count;
    process->lists[process->list_count++] = *list;
    *list = (struct region_list){0};
    return 0;
}

/* --- frames --- */

static int add_frame(struct memory_infra_symbols *symbols, const struct pc_frame *frame,
                     uint32_t *index)
{
    if (symbols->frame_count >= NONE - 1 ||
        ARRAY_RESERVE(&symbols->frames, &symbols->frame_capacity, symbols->frame_count, 1) < 0)
        return -ENOMEM;
    symbols->frames[symbols->frame_count] = *frame;
    *index = (uint32_t)symbols->frame_count++;
    return 0;
}

static int add_use(struct memory_infra_symbols *symbols, uint32_t event, uint32_t frame)
{
    struct pc_frame *used = &symbols->frames[frame];
    if (used->stamp == event + 1)
        return 0;
    used->stamp = event + 1;
    used->is_used = true;
    if (symbols->use_count >= NONE - 1 ||
        ARRAY_RESERVE(&symbols->uses, &symbols->use_capacity, symbols->use_count, 1) < 0)
        return -ENOMEM;
    symbols->uses[symbols->use_count++] =
        (struct pc_use){.event = event, .frame = frame, .module = NONE, .answer = NONE};
    return 0;
}

/* An id that is defined again with the same text stays the same. */
static int add_strings(struct collector *at, uint32_t process_index, uint32_t event)
{
    struct memory_infra_symbols *symbols = at->symbols;
    struct id_map *map = &symbols->processes[process_index].strings;
    int result = 0;
    for (size_t i = 0; i < at->string_count && result == 0; i++) {
        const struct event_string *string = &at->strings[i];
        uint32_t index, known = id_map_find(map, string->id);
        bool is_pc = string->address != MEMORY_INFRA_NONE;
        if (known == ID_MAP_NONE ? !is_pc
                                 : is_pc && symbols->frames[known].address == string->address)
            continue;
        const struct pc_frame frame = {.process = process_index,
                                       .event = event,
                                       .address = string->address,
                                       .id = string->id,
                                       .is_name = !is_pc};
        result = add_frame(symbols, &frame, &index);
        if (result == 0)
            result = id_map_set(map, string->id, is_pc ? index : ID_MAP_NONE);
    }
    return result;
}

static int add_nodes(struct collector *at, uint32_t process_index, uint32_t event)
{
    struct memory_infra_symbols *symbols = at->symbols;
    const struct id_map *map = &symbols->processes[process_index].strings;
    int result = 0;
    for (size_t i = 0; i < at->name_count && result == 0; i++) {
        uint32_t frame = id_map_find(map, at->names[i]);
        if (frame != ID_MAP_NONE)
            result = add_use(symbols, event, frame);
    }
    for (size_t i = 0; i < at->type_count; i++) {
        uint32_t frame = id_map_find(map, at->type_names[i]);
        if (frame != ID_MAP_NONE)
            symbols->frames[frame].is_kept = true;
    }
    return result;
}

/* --- events --- */

static int find_process(struct memory_infra_symbols *symbols, int64_t pid, uint32_t *index)
{
    *index = id_map_find(&symbols->process_ids, (uint64_t)pid);
    if (*index != ID_MAP_NONE)
        return 0;
    *index = (uint32_t)symbols->process_count;
    if (ARRAY_RESERVE(&symbols->processes, &symbols->process_capacity, symbols->process_count, 1) <
            0 ||
        id_map_set(&symbols->process_ids, (uint64_t)pid, *index) < 0)
        return -ENOMEM;
    symbols->processes[symbols->process_count++] = (struct dump_process){.pid = pid};
    return 0;
}

static int add_maps(struct collector *at, uint32_t event)
{
    struct memory_infra_symbols *symbols = at->symbols;
    if (ARRAY_RESERVE(&symbols->maps, &symbols->maps_capacity, symbols->maps_count,
                      at->maps_count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < at->maps_count; i++)
        symbols->maps[symbols->maps_count++] = (struct maps_place){at->maps[i], event};
    return 0;
}

static int end_event(void *context, const struct memory_infra_event *ended)
{
    struct collector *at = context;
    struct memory_infra_symbols *symbols = at->symbols;
    uint32_t process, index = (uint32_t)symbols->event_count;
    if (ended->spoilt || (at->maps_count == 0 && at->regions.count == 0))
        return 0;
    if (symbols->event_count >= NONE - 1 || find_process(symbols, ended->pid, &process) < 0 ||
        ARRAY_RESERVE(&symbols->events, &symbols->event_capacity, symbols->event_count, 1) < 0)
        return -ENOMEM;
    struct dump_event *event = &symbols->events[symbols->event_count++];
    *event = (struct dump_event){.process = process, .first_use = (uint32_t)symbols->use_count};
    int result = add_regions(at, &symbols->processes[process], index, &event->regions);
    if (result == 0)
        result = add_strings(at, process, index);
    if (result == 0)
        result = add_nodes(at, process, index);
    if (result == 0)
        result = add_maps(at, index);
    event->use_count = (uint32_t)symbols->use_count - event->first_use;
    return result;
}

/* --- the file --- */

static void take_bytes(void *context, uint64_t bytes)
{
    struct collector *at = context;
    at->symbols->bytes = bytes;
}

static int read_all(struct collector *at, struct trace_source *source, struct error *error)
{
    static const struct memory_infra_visitor visitor = {
        .event_begin = begin_event,
        .event_end = end_event,
        .problem = take_problem,
        .string = take_string,
        .node = take_node,
        .type = take_type,
        .maps = take_maps,
        .region = take_region,
    };
    trace_source_tell(source, take_bytes, at);
    return memory_infra_read_source(source, &visitor, at, error);
}

int symbols_collect(struct memory_infra_symbols *symbols, const char *path, struct error *error)
{
    struct collector at = {.symbols = symbols};
    struct error problem = {0};
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    symbols->next_id = 1;
    int result = read_all(&at, source, &problem);
    trace_source_close(source);
    free(at.strings);
    free(at.names);
    free(at.type_names);
    free(at.regions.items);
    free(at.maps);
    if (at.problems > 1) {
        size_t length = strlen(symbols->warning);
        snprintf(symbols->warning + length, sizeof(symbols->warning) - length,
                 "; and %zu more such events or values", at.problems - 1);
    }
    if (result < 0)
        return error_set(error, result, "%s: %s", path, problem.message);
    if (symbols->next_id > ID_MAX)
        return error_set(error, -EOVERFLOW, "%s: its ids are too big to add new ones", path);
    return 0;
}

void symbols_clear_collected(struct memory_infra_symbols *symbols)
{
    for (size_t i = 0; i < symbols->process_count; i++) {
        struct dump_process *process = &symbols->processes[i];
        for (size_t j = 0; j < process->list_count; j++)
            free(process->lists[j].items);
        free(process->lists);
        id_map_free(&process->strings);
        id_map_free(&process->list_ids);
    }
    texts_free(&symbols->texts);
    id_map_free(&symbols->process_ids);
    free(symbols->processes);
    free(symbols->frames);
    free(symbols->uses);
    free(symbols->events);
    free(symbols->maps);
}
