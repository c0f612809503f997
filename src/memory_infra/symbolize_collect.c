/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first pass of symbolize.h: what an event tells is kept until its end, which says whose it is,
 * and goes to its process then. Kept for good are the `pc:` texts, which of them each event's nodes
 * use, and each process's regions, where a dump has others than the one before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_infra/symbolize_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)
/* Ids of what is inserted are numbers that a double holds exactly. */
#define ID_MAX (UINT64_C(1) << 52)

struct told_string {
    uint64_t id, address; /* MEMORY_INFRA_NONE: another text */
};

struct told_frame {
    uint32_t key;
    uint64_t address;
};

struct collector {
    struct memory_infra_symbols *symbols;
    size_t problems;
    /* Of the event. */
    struct told_string *strings;
    size_t string_count, string_capacity;
    uint64_t *names; /* string ids of nodes */
    size_t name_count, name_capacity;
    uint64_t *type_names;
    size_t type_count, type_capacity;
    struct told_frame *frames;
    size_t frame_count, frame_capacity;
    struct region_list regions;
    struct rewrite *rewrites;
    size_t rewrite_count, rewrite_capacity;
    bool has_entries;
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
    if (copy == NULL ||
        array_reserve(&texts->items, &texts->capacity, texts->count, 1, sizeof(char *)) < 0) {
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

bool symbols_read_pc(const char *text, size_t length, uint64_t *address)
{
    uint64_t result = 0;
    if (length < 4 || length > 3 + 16 || memcmp(text, "pc:", 3) != 0)
        return false;
    for (size_t i = 3; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned digit = c - (unsigned)'0';
        if (digit > 9) {
            digit = (c | 0x20u) - 'a';
            if (digit > 5)
                return false;
            digit += 10;
        }
        result = result << 4 | digit;
    }
    *address = result;
    return true;
}

/* --- what an event tells --- */

static void see_id(struct collector *at, uint64_t id)
{
    if (id != MEMORY_INFRA_NONE && id >= at->symbols->next_id)
        at->symbols->next_id = id + 1;
}

static int take_string(void *context, uint64_t id, struct memory_infra_text text)
{
    struct collector *at = context;
    struct told_string told = {.id = id, .address = MEMORY_INFRA_NONE};
    see_id(at, id);
    symbols_read_pc(text.at, text.length, &told.address);
    if (array_reserve(&at->strings, &at->string_capacity, at->string_count, 1, sizeof(told)) < 0)
        return -ENOMEM;
    at->strings[at->string_count++] = told;
    return 0;
}

static int take_node(void *context, const struct memory_infra_node *node)
{
    struct collector *at = context;
    see_id(at, node->id);
    see_id(at, node->parent);
    see_id(at, node->name_sid);
    if (array_reserve(&at->names, &at->name_capacity, at->name_count, 1, sizeof(uint64_t)) < 0)
        return -ENOMEM;
    at->names[at->name_count++] = node->name_sid;
    return 0;
}

static int take_type(void *context, uint64_t id, uint64_t name_sid)
{
    struct collector *at = context;
    see_id(at, id);
    see_id(at, name_sid);
    if (array_reserve(&at->type_names, &at->type_capacity, at->type_count, 1, sizeof(uint64_t)) < 0)
        return -ENOMEM;
    at->type_names[at->type_count++] = name_sid;
    return 0;
}

static int add_rewrite(struct collector *at, struct memory_infra_range range, enum rewritten what)
{
    if (array_reserve(&at->rewrites, &at->rewrite_capacity, at->rewrite_count, 1,
                      sizeof(*at->rewrites)) < 0)
        return -ENOMEM;
    at->rewrites[at->rewrite_count++] = (struct rewrite){range, what, 0};
    return 0;
}

static int take_maps(void *context, struct memory_infra_range range)
{
    return add_rewrite(context, range, REWRITE_MAPS);
}

static int take_frame(void *context, const struct memory_infra_frame *frame)
{
    struct collector *at = context;
    struct told_frame told;
    char key[32], *end;
    if (frame->id.length < sizeof(key)) {
        memcpy(key, frame->id.at, frame->id.length);
        key[frame->id.length] = '\0';
        unsigned long long number = strtoull(key, &end, 10);
        if (*end == '\0' && number < ID_MAX && number >= at->symbols->next_key)
            at->symbols->next_key = number + 1;
    }
    if (!symbols_read_pc(frame->name.at, frame->name.length, &told.address))
        return 0;
    told.key = texts_add(&at->symbols->texts, frame->id.at, frame->id.length);
    if (told.key == NONE ||
        array_reserve(&at->frames, &at->frame_capacity, at->frame_count, 1, sizeof(told)) < 0)
        return -ENOMEM;
    at->frames[at->frame_count++] = told;
    return 0;
}

static int take_frames(void *context, struct memory_infra_range range)
{
    return add_rewrite(context, range, REWRITE_FRAMES);
}

static int take_entry(void *context, const struct memory_infra_entry *entry)
{
    struct collector *at = context;
    (void)entry;
    at->has_entries = true;
    return 0;
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
        array_reserve(&list->items, &list->capacity, list->count, 1, sizeof(kept)) < 0)
        return -ENOMEM;
    list->items[list->count++] = kept;
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
    at->string_count = at->name_count = at->type_count = at->frame_count = 0;
    at->regions.count = at->rewrite_count = 0;
    at->has_entries = false;
    return 0;
}

/* --- regions --- */

static int compare_regions(const void *a, const void *b)
{
    const struct vm_region *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Sorted, of those that overlap only the first; each knows where its file's mapping begins: at the
 * region of the file before, unless another file lies in between or offsets begin anew. */
static void finish_regions(struct region_list *list, const struct texts *texts)
{
    size_t kept = 0, last = SIZE_MAX;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare_regions);
    list->hash = HASH_FACTOR;
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
            list->hash = (list->hash ^ parts[j] ^ list->hash >> 29) * HASH_FACTOR;
        list->items[kept++] = region;
    }
    list->count = kept;
}

/* The index of the process's list with these regions, which are the collector's no more. */
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
    if (array_reserve(&process->lists, &process->list_capacity, process->list_count, 1,
                      sizeof(*process->lists)) < 0 ||
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
        array_reserve(&symbols->frames, &symbols->frame_capacity, symbols->frame_count, 1,
                      sizeof(*frame)) < 0)
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
        array_reserve(&symbols->uses, &symbols->use_capacity, symbols->use_count, 1,
                      sizeof(*symbols->uses)) < 0)
        return -ENOMEM;
    symbols->uses[symbols->use_count++] =
        (struct pc_use){.event = event, .frame = frame, .module = NONE, .answer = NONE};
    return 0;
}

/* An id that is told again with what it had stays the same. */
static int add_strings(struct collector *at, uint32_t process_index, uint32_t event)
{
    struct memory_infra_symbols *symbols = at->symbols;
    struct id_map *map = &symbols->processes[process_index].strings;
    int result = 0;
    for (size_t i = 0; i < at->string_count && result == 0; i++) {
        const struct told_string *told = &at->strings[i];
        uint32_t index, known = id_map_find(map, told->id);
        bool is_pc = told->address != MEMORY_INFRA_NONE;
        if (known == ID_MAP_NONE ? !is_pc
                                 : is_pc && symbols->frames[known].address == told->address)
            continue;
        const struct pc_frame frame = {.process = process_index,
                                       .event = event,
                                       .address = told->address,
                                       .id = told->id,
                                       .key = NONE,
                                       .is_name = !is_pc};
        result = add_frame(symbols, &frame, &index);
        if (result == 0)
            result = id_map_set(map, told->id, is_pc ? index : ID_MAP_NONE);
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

static int add_v1_frames(struct collector *at, uint32_t process_index, uint32_t event)
{
    struct memory_infra_symbols *symbols = at->symbols;
    int result = 0;
    for (size_t i = 0; i < at->frame_count && result == 0; i++) {
        uint32_t index;
        const struct pc_frame frame = {.process = process_index,
                                       .event = event,
                                       .address = at->frames[i].address,
                                       .id = MEMORY_INFRA_NONE,
                                       .key = at->frames[i].key};
        result = add_frame(symbols, &frame, &index);
        if (result == 0)
            result = id_map_set(&symbols->processes[process_index].keys, frame.key, index);
        if (result == 0)
            result = add_use(symbols, event, index);
    }
    return result;
}

/* --- events --- */

static int find_process(struct memory_infra_symbols *symbols, int64_t pid, uint32_t *index)
{
    bool added;
    uint64_t id = intern_bytes(&symbols->process_ids, &pid, sizeof(pid), &added);
    if (id == 0 || id >= NONE)
        return -ENOMEM;
    *index = (uint32_t)id - 1;
    if (!added)
        return 0;
    if (array_reserve(&symbols->processes, &symbols->process_capacity, symbols->process_count, 1,
                      sizeof(*symbols->processes)) < 0)
        return -ENOMEM;
    symbols->processes[symbols->process_count++] = (struct dump_process){.pid = pid};
    return 0;
}

static int compare_uses(const void *a, const void *b)
{
    const struct pc_use *left = a, *right = b;
    return left->frame < right->frame ? -1 : left->frame > right->frame;
}

static int end_event(void *context, const struct memory_infra_event *told)
{
    struct collector *at = context;
    struct memory_infra_symbols *symbols = at->symbols;
    uint32_t process, index = (uint32_t)symbols->event_count;
    if (told->spoilt || (at->rewrite_count == 0 && at->regions.count == 0 && !at->has_entries))
        return 0;
    if (symbols->event_count >= NONE - 1 || find_process(symbols, told->pid, &process) < 0 ||
        array_reserve(&symbols->events, &symbols->event_capacity, symbols->event_count, 1,
                      sizeof(*symbols->events)) < 0)
        return -ENOMEM;
    struct dump_event *event = &symbols->events[symbols->event_count++];
    *event = (struct dump_event){
        .process = process, .first_use = (uint32_t)symbols->use_count, .dump = NONE};
    if (told->id.length > 0)
        event->dump = texts_add(&symbols->texts, told->id.at, told->id.length);
    bool has_maps = false;
    for (size_t i = 0; i < at->rewrite_count; i++)
        has_maps |= at->rewrites[i].what == REWRITE_MAPS;
    int result = add_regions(at, &symbols->processes[process], index, &event->regions);
    if (result == 0)
        result = add_strings(at, process, index);
    if (result == 0)
        result = add_nodes(at, process, index);
    if (result == 0)
        result = add_v1_frames(at, process, index);
    /* Where there are both, readers take one or the other, and maps stand within. */
    if (result == 0 && at->has_entries && !has_maps) {
        at->rewrite_count = 0;
        result = add_rewrite(at, told->range, REWRITE_ENTRIES);
    }
    if (result == 0)
        result = array_reserve(&symbols->rewrites, &symbols->rewrite_capacity,
                               symbols->rewrite_count, at->rewrite_count, sizeof(struct rewrite));
    for (size_t i = 0; i < at->rewrite_count && result == 0; i++) {
        at->rewrites[i].event = index;
        if (symbols->rewrite_count == 0 ||
            at->rewrites[i].range.begin >= symbols->rewrites[symbols->rewrite_count - 1].range.end)
            symbols->rewrites[symbols->rewrite_count++] = at->rewrites[i];
    }
    event->use_count = (uint32_t)symbols->use_count - event->first_use;
    if (event->use_count > 1)
        qsort(symbols->uses + event->first_use, event->use_count, sizeof(struct pc_use),
              compare_uses);
    return result;
}

/* --- the file --- */

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
        .frame = take_frame,
        .frames = take_frames,
        .entry = take_entry,
        .region = take_region,
    };
    static char buffer[256 * 1024];
    struct memory_infra_reader *reader = memory_infra_reader_new(&visitor, at);
    ssize_t got = 0;
    int result = reader == NULL ? error_set(error, -ENOMEM, "no memory to read it") : 0;
    while (result == 0 && (got = trace_source_read(source, buffer, sizeof(buffer), error)) > 0) {
        at->symbols->bytes += (uint64_t)got;
        result = memory_infra_reader_feed(reader, buffer, (size_t)got, error);
    }
    if (result == 0 && got < 0)
        result = (int)got;
    if (result == 0)
        result = memory_infra_reader_end(reader, error);
    memory_infra_reader_free(reader);
    return result;
}

int symbols_collect(struct memory_infra_symbols *symbols, const char *path, struct error *error)
{
    struct collector at = {.symbols = symbols};
    struct error problem = {0};
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    symbols->next_id = symbols->next_key = 1;
    int result = read_all(&at, source, &problem);
    trace_source_close(source);
    free(at.strings);
    free(at.names);
    free(at.type_names);
    free(at.frames);
    free(at.regions.items);
    free(at.rewrites);
    if (at.problems > 1) {
        size_t length = strlen(symbols->warning);
        snprintf(symbols->warning + length, sizeof(symbols->warning) - length,
                 "; and %zu more such events or values", at.problems - 1);
    }
    if (result < 0)
        return error_set(error, result, "%s: %s", path, problem.message);
    if (symbols->next_id > ID_MAX || symbols->next_key > ID_MAX)
        return error_set(error, -EOVERFLOW, "%s: its ids are too big for more of them", path);
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
        id_map_free(&process->keys);
        id_map_free(&process->list_ids);
    }
    texts_free(&symbols->texts);
    intern_free(&symbols->process_ids);
    free(symbols->processes);
    free(symbols->frames);
    free(symbols->uses);
    free(symbols->events);
    free(symbols->rewrites);
}
