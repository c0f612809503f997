/* SPDX-License-Identifier: Apache-2.0 */
/* Maps by id, and the callsites of their nodes (stacks.h). */
#include "profile/import/memory_infra/stacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define FRAMES_MAX (1u << 16)
#define ON_PATH (UINT32_MAX - 1)
/* Each site of a broken stack walks the whole stack again. After this number of nodes in broken
 * stacks, deep stacks are refused. */
#define WASTED_MAX (UINT64_C(1) << 26)
#define FRAMES_MAX_AFTER_WASTE 256u

/* --- maps --- */

int stack_maps_add_string(struct stack_maps *maps, uint64_t id, uint32_t string)
{
    maps->any = true;
    if (maps->of_event) {
        if (ARRAY_RESERVE(&maps->string_items, &maps->string_capacity, maps->string_count, 1) < 0)
            return -ENOMEM;
        maps->string_items[maps->string_count++] = (struct stack_string){id, string};
    }
    return id_map_set(&maps->strings, id, string);
}

static uint32_t add_place(struct stack_maps *maps, uint64_t file, uint32_t line)
{
    if (maps->place_count > 0) {
        const struct stack_place *last = &maps->places[maps->place_count - 1];
        if (last->file == file && last->line == line)
            return (uint32_t)maps->place_count;
    }
    if (maps->place_count >= UINT32_MAX - 1 ||
        ARRAY_RESERVE(&maps->places, &maps->place_capacity, maps->place_count, 1) < 0)
        return UINT32_MAX;
    maps->places[maps->place_count++] = (struct stack_place){file, line};
    return (uint32_t)maps->place_count;
}

static int put_node(struct stack_maps *maps, uint64_t id, const struct stack_node *node)
{
    uint32_t known = id_map_find(&maps->nodes, id);
    if (known != ID_MAP_NONE) {
        maps->items[known] = *node;
        return 0;
    }
    if (maps->count >= STACK_UNRESOLVED - 2 ||
        ARRAY_RESERVE(&maps->items, &maps->capacity, maps->count, 1) < 0 ||
        (maps->of_event && ARRAY_RESERVE(&maps->ids, &maps->id_capacity, maps->count, 1) < 0) ||
        id_map_set(&maps->nodes, id, (uint32_t)maps->count) < 0)
        return -ENOMEM;
    maps->any = true;
    if (maps->of_event)
        maps->ids[maps->count] = id;
    maps->items[maps->count++] = *node;
    return 0;
}

int stack_maps_add_node(struct stack_maps *maps, const struct memory_infra_node *node)
{
    struct stack_node made = {
        .parent = node->parent, .name = node->name_sid, .callsite = STACK_UNRESOLVED};
    if (node->file_sid != MEMORY_INFRA_NONE || node->line != 0) {
        made.place = add_place(maps, node->file_sid, node->line);
        if (made.place == UINT32_MAX)
            return -ENOMEM;
    }
    return put_node(maps, node->id, &made);
}

int stack_maps_add_type(struct stack_maps *maps, uint64_t id, uint64_t name)
{
    uint32_t known = id_map_find(&maps->types, id);
    maps->any = true;
    if (known != ID_MAP_NONE) {
        maps->type_items[known].name = name;
        return 0;
    }
    if (maps->type_count >= UINT32_MAX - 1 ||
        ARRAY_RESERVE(&maps->type_items, &maps->type_capacity, maps->type_count, 1) < 0 ||
        id_map_set(&maps->types, id, (uint32_t)maps->type_count) < 0)
        return -ENOMEM;
    maps->type_items[maps->type_count++] = (struct stack_type){id, name};
    return 0;
}

static struct stack_place place_of(const struct stack_maps *maps, const struct stack_node *node)
{
    return node->place == 0 ? (struct stack_place){MEMORY_INFRA_NONE, 0}
                            : maps->places[node->place - 1];
}

static bool is_same_node(const struct stack_maps *maps, const struct stack_node *node,
                         const struct stack_maps *event, const struct stack_node *event_node)
{
    struct stack_place place = place_of(maps, node), event_place = place_of(event, event_node);
    return node->parent == event_node->parent && node->name == event_node->name &&
           place.file == event_place.file && place.line == event_place.line;
}

enum stack_change stack_maps_compare(struct stack_maps *maps, const struct stack_maps *event)
{
    bool more = false;
    if (!maps->any)
        return STACK_EXTENDED;
    for (size_t i = 0; i < event->string_count; i++) {
        uint32_t known = id_map_find(&maps->strings, event->string_items[i].id);
        more |= known == ID_MAP_NONE;
        if (known != ID_MAP_NONE && known != event->string_items[i].string)
            return STACK_REDEFINED;
    }
    for (size_t i = 0; i < event->count; i++) {
        uint32_t known = id_map_find(&maps->nodes, event->ids[i]);
        more |= known == ID_MAP_NONE;
        if (known != ID_MAP_NONE &&
            !is_same_node(maps, &maps->items[known], event, &event->items[i]))
            return STACK_REDEFINED;
    }
    for (size_t i = 0; i < event->type_count; i++) {
        uint32_t known = id_map_find(&maps->types, event->type_items[i].id);
        more |= known == ID_MAP_NONE;
        if (known != ID_MAP_NONE && maps->type_items[known].name != event->type_items[i].name)
            return STACK_REDEFINED;
    }
    return more ? STACK_EXTENDED : STACK_UNCHANGED;
}

/* An unchanged node keeps its callsite. */
static int merge_node(struct stack_maps *maps, const struct stack_maps *event, size_t index)
{
    struct stack_node node = event->items[index];
    uint32_t known = id_map_find(&maps->nodes, event->ids[index]);
    if (known != ID_MAP_NONE && is_same_node(maps, &maps->items[known], event, &node))
        return 0;
    if (node.place != 0) {
        struct stack_place place = place_of(event, &node);
        node.place = add_place(maps, place.file, place.line);
        if (node.place == UINT32_MAX)
            return -ENOMEM;
    }
    return put_node(maps, event->ids[index], &node);
}

int stack_maps_merge(struct stack_maps *maps, struct stack_maps *event)
{
    int code = 0;
    if (!maps->any) {
        *maps = *event;
        free(maps->ids);
        free(maps->string_items);
        maps->ids = NULL;
        maps->string_items = NULL;
        maps->string_count = maps->string_capacity = maps->id_capacity = 0;
        maps->of_event = false;
        *event = (struct stack_maps){0};
    }
    for (size_t i = 0; i < event->string_count && code == 0; i++)
        code = id_map_set(&maps->strings, event->string_items[i].id, event->string_items[i].string);
    for (size_t i = 0; i < event->count && code == 0; i++)
        code = merge_node(maps, event, i);
    for (size_t i = 0; i < event->type_count && code == 0; i++)
        code = stack_maps_add_type(maps, event->type_items[i].id, event->type_items[i].name);
    return code;
}

void stack_maps_forget_callsites(struct stack_maps *maps)
{
    for (size_t i = 0; i < maps->found_count; i++)
        maps->items[maps->found[i]].callsite = STACK_UNRESOLVED;
    maps->found_count = 0;
}

void stack_maps_clear(struct stack_maps *maps)
{
    if (!maps->any)
        return;
    maps->any = false;
    id_map_clear(&maps->strings);
    id_map_clear(&maps->types);
    id_map_clear(&maps->nodes);
    maps->count = maps->place_count = maps->type_count = maps->string_count = 0;
    maps->found_count = 0;
}

void stack_maps_free(struct stack_maps *maps)
{
    id_map_free(&maps->strings);
    id_map_free(&maps->types);
    id_map_free(&maps->nodes);
    free(maps->items);
    free(maps->ids);
    free(maps->found);
    free(maps->places);
    free(maps->type_items);
    free(maps->string_items);
    *maps = (struct stack_maps){0};
}

/* --- frames --- */

void stack_resolver_free(struct stack_resolver *resolver)
{
    free(resolver->path);
    free(resolver->named);
    *resolver = (struct stack_resolver){0};
}

/* Return where the frame of a name without a file and a line is kept. NULL: no memory. */
static uint32_t *named_frame(struct stack_resolver *resolver, uint32_t name)
{
    if (name < resolver->named_count)
        return &resolver->named[name];
    size_t count = resolver->builder->string_count + resolver->named_count / 2;
    uint32_t *grown = reallocarray(resolver->named, count, sizeof(*grown));
    if (grown == NULL)
        return NULL;
    memset(grown + resolver->named_count, 0, (count - resolver->named_count) * sizeof(*grown));
    resolver->named = grown;
    resolver->named_count = count;
    return &resolver->named[name];
}

/* Make the frame of a name that is no address. Nodes are many, and their names few. */
static uint32_t make_named_frame(struct stack_resolver *resolver, uint32_t name, uint32_t file,
                                 uint32_t line)
{
    struct builder *builder = resolver->builder;
    uint32_t frame = builder_frame(builder, PROFILE_NONE, 0, name, file, line);
    uint32_t *kept = file == 0 && line == 0 ? named_frame(resolver, name) : NULL;
    if (kept != NULL && frame != PROFILE_NONE)
        *kept = frame + 1;
    return frame;
}

static uint32_t make_frame(struct stack_resolver *resolver, uint32_t name, uint32_t file,
                           uint32_t line)
{
    struct builder *builder = resolver->builder;
    uint64_t address, rel_pc;
    if (file == 0 && line == 0 && name < resolver->named_count && resolver->named[name] != 0)
        return resolver->named[name] - 1;
    if (name == 0)
        name = builder_string(builder, "?", 1);
    const char *text = builder->strings[name];
    if (!memory_infra_read_pc((struct memory_infra_text){text, strlen(text)}, &address))
        return make_named_frame(resolver, name, file, line);
    /* The call is before the return address. */
    address -= address > 0;
    rel_pc = address;
    uint32_t mapping = resolver->find_address == NULL
                           ? PROFILE_NONE
                           : resolver->find_address(resolver->context, address, &rel_pc);
    return builder_frame(builder, mapping, rel_pc, 0, 0, 0);
}

static enum stack_status frame_of_node(struct stack_resolver *resolver, struct stack_maps *maps,
                                       const struct stack_node *node, uint32_t *frame,
                                       uint64_t *missing)
{
    struct stack_place place = place_of(maps, node);
    uint32_t name = id_map_find(&maps->strings, node->name), file = 0;
    *missing = node->name;
    if (name == ID_MAP_NONE)
        return STACK_NO_STRING;
    if (place.file != MEMORY_INFRA_NONE) {
        file = id_map_find(&maps->strings, place.file);
        *missing = place.file;
        if (file == ID_MAP_NONE)
            return STACK_NO_STRING;
    }
    resolver->awaits_address = false;
    *frame = make_frame(resolver, name, file, place.line);
    if (resolver->awaits_address)
        return STACK_NO_ADDRESS;
    return *frame == PROFILE_NONE ? STACK_NO_MEMORY : STACK_FOUND;
}

/* --- callsites --- */

/* Walk from a node outwards to the first one with a known callsite: `count` nodes on the path. */
static enum stack_status walk_outwards(struct stack_resolver *resolver, struct stack_maps *maps,
                                       uint64_t id, size_t *count, uint32_t *callsite,
                                       uint64_t *missing)
{
    size_t most = resolver->wasted < WASTED_MAX ? FRAMES_MAX : FRAMES_MAX_AFTER_WASTE;
    *callsite = PROFILE_NONE;
    while (id != MEMORY_INFRA_NONE) {
        uint32_t index = id_map_find(&maps->nodes, id);
        *missing = id;
        if (index == ID_MAP_NONE)
            return STACK_NO_NODE;
        struct stack_node *node = &maps->items[index];
        if (node->callsite == ON_PATH)
            return STACK_CIRCLE;
        if (node->callsite != STACK_UNRESOLVED) {
            *callsite = node->callsite;
            return STACK_FOUND;
        }
        if (*count >= most)
            return most < FRAMES_MAX ? STACK_TOO_MANY_BROKEN : STACK_TOO_DEEP;
        if (ARRAY_RESERVE(&resolver->path, &resolver->path_capacity, *count, 1) < 0)
            return STACK_NO_MEMORY;
        node->callsite = ON_PATH;
        resolver->path[(*count)++] = index;
        id = node->parent;
    }
    return STACK_FOUND;
}

/* Walk back inwards and make callsites. *count: number of remaining nodes on the path. */
static enum stack_status walk_inwards(struct stack_resolver *resolver, struct stack_maps *maps,
                                      size_t *count, uint32_t *callsite, uint64_t *missing)
{
    const struct profile *profile = resolver->builder->profile;
    while (*count > 0) {
        struct stack_node *node = &maps->items[resolver->path[*count - 1]];
        uint32_t frame;
        enum stack_status status = frame_of_node(resolver, maps, node, &frame, missing);
        if (status != STACK_FOUND)
            return status;
        if (*callsite != PROFILE_NONE && profile->callsites[*callsite].depth + 1 >= FRAMES_MAX)
            return STACK_TOO_DEEP;
        if (profile->callsite_count > resolver->callsites_max)
            return STACK_TOO_MANY;
        *callsite = builder_callsite(resolver->builder, *callsite, frame);
        if (*callsite == PROFILE_NONE ||
            ARRAY_ADD(&maps->found, &maps->found_count, &maps->found_capacity,
                      resolver->path[*count - 1]) < 0)
            return STACK_NO_MEMORY;
        node->callsite = *callsite;
        --*count;
    }
    return STACK_FOUND;
}

enum stack_status stack_resolve(struct stack_resolver *resolver, struct stack_maps *maps,
                                uint64_t node, uint32_t *callsite, uint64_t *missing)
{
    size_t count = 0;
    enum stack_status status = walk_outwards(resolver, maps, node, &count, callsite, missing);
    if (status == STACK_FOUND)
        status = walk_inwards(resolver, maps, &count, callsite, missing);
    resolver->wasted += count;
    while (count > 0)
        maps->items[resolver->path[--count]].callsite = STACK_UNRESOLVED;
    return status;
}

bool stack_type(struct stack_maps *maps, uint64_t type, uint32_t *string)
{
    uint32_t index = id_map_find(&maps->types, type);
    *string = index == ID_MAP_NONE ? ID_MAP_NONE
                                   : id_map_find(&maps->strings, maps->type_items[index].name);
    return *string != ID_MAP_NONE;
}

void stack_status_describe(enum stack_status status, uint64_t node, uint64_t missing, char *text,
                           size_t size)
{
    switch (status) {
    case STACK_NO_NODE:
        snprintf(text, size,
                 "the stack of node %" PRIu64 " has node %" PRIu64 ", which is in no map", node,
                 missing);
        return;
    case STACK_NO_STRING:
        snprintf(text, size,
                 "the stack of node %" PRIu64 " has string %" PRIu64 ", which is in no map", node,
                 missing);
        return;
    case STACK_CIRCLE:
        snprintf(text, size,
                 "the stack of node %" PRIu64 " goes in a circle: node %" PRIu64
                 " is its own parent's parent",
                 node, missing);
        return;
    case STACK_TOO_DEEP:
        snprintf(text, size, "the stack of node %" PRIu64 " has more than 65,536 frames", node);
        return;
    case STACK_TOO_MANY:
        snprintf(text, size, "there are far more stacks than nodes");
        return;
    case STACK_TOO_MANY_BROKEN:
        snprintf(text, size,
                 "the stack of node %" PRIu64 " has more than 256 frames, and too many stacks "
                 "before it were broken",
                 node);
        return;
    case STACK_FOUND:
    case STACK_NO_ADDRESS:
    case STACK_NO_MEMORY:
        break;
    }
    snprintf(text, size, "no memory for the stacks");
}
