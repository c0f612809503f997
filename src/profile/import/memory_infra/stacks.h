/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a process by the file's own ids: strings, nodes, types. Maps are incremental: a
 * dump adds to those before it, and may define an id again. Ids are any numbers. Parents may come
 * in any order, be missing, or form a cycle.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_STACKS_H
#define HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_STACKS_H

#include "profile/builder/builder.h"
#include "profile/memory_infra/read.h"
#include "util/id_map.h"

struct stack_maps {
    bool any;              /* anything is defined */
    bool of_event;         /* maps of one event, with the lists that merging needs */
    struct id_map strings; /* id: string of the builder */
    struct id_map types;   /* id: index of type_names */
    struct id_map nodes;   /* id: index below */
    struct stack_node {
        uint64_t parent, name; /* ids; parent MEMORY_INFRA_NONE: a root */
        uint32_t place;        /* index of places + 1; 0: no file or line is known */
        uint32_t callsite;     /* STACK_UNRESOLVED */
    } * items;
    uint64_t *ids; /* by node; of an event's maps only */
    size_t count, capacity, id_capacity;
    uint32_t *found; /* indexes of the nodes whose callsites are known */
    size_t found_count, found_capacity;
    struct stack_place {
        uint64_t file; /* id; MEMORY_INFRA_NONE: unknown */
        uint32_t line;
    } * places;
    size_t place_count, place_capacity;
    struct stack_type {
        uint64_t id, name; /* id of the string */
    } * type_items;
    size_t type_count, type_capacity;
    struct stack_string {
        uint64_t id;
        uint32_t string;
    } * string_items; /* of an event's maps only */
    size_t string_count, string_capacity;
};

#define STACK_UNRESOLVED UINT32_MAX

/* All 0 or -ENOMEM. */
int stack_maps_add_string(struct stack_maps *maps, uint64_t id, uint32_t string);
int stack_maps_add_node(struct stack_maps *maps, const struct memory_infra_node *node);
int stack_maps_add_type(struct stack_maps *maps, uint64_t id, uint64_t name);

/* How an event changes the maps of its process. */
enum stack_change {
    STACK_UNCHANGED,
    STACK_EXTENDED,
    STACK_REDEFINED, /* an id has another meaning now */
};
enum stack_change stack_maps_compare(struct stack_maps *maps, const struct stack_maps *event);
/* Add the definitions of an event. Its maps can be moved, and are empty afterwards. */
int stack_maps_merge(struct stack_maps *maps, struct stack_maps *event);
/* Call this if callsites of nodes may change. */
void stack_maps_forget_callsites(struct stack_maps *maps);
/* Forget all definitions, but keep the memory. */
void stack_maps_clear(struct stack_maps *maps);
void stack_maps_free(struct stack_maps *maps);

/* Make callsites of nodes, for all processes. */
struct stack_resolver {
    struct builder *builder;
    /* Return the mapping of an address, and the position in it; PROFILE_NONE: none. */
    uint32_t (*find_address)(void *context, uint64_t address, uint64_t *rel_pc);
    void *context;
    bool awaits_address; /* set by find_address: it may be found later */
    uint64_t callsites_max;
    uint64_t wasted; /* nodes walked for broken stacks */
    uint32_t *path;
    size_t path_capacity;
    uint32_t *named; /* by string of the builder: its frame without a place + 1, or 0 */
    size_t named_count;
};

enum stack_status {
    STACK_FOUND,
    STACK_NO_NODE,
    STACK_NO_STRING,
    STACK_NO_ADDRESS, /* it may be found later */
    STACK_CIRCLE,
    STACK_TOO_DEEP,
    STACK_TOO_MANY,
    STACK_TOO_MANY_BROKEN, /* this stack is deep, and too many others were broken */
    STACK_NO_MEMORY,
};
void stack_resolver_free(struct stack_resolver *resolver);
/* Find the callsite of a node. *missing: the undefined id, or the node that closes a cycle. */
enum stack_status stack_resolve(struct stack_resolver *resolver, struct stack_maps *maps,
                                uint64_t node, uint32_t *callsite, uint64_t *missing);
/* Find a type's name, a string of the builder. Return false if no map has it. */
bool stack_type(struct stack_maps *maps, uint64_t type, uint32_t *string);
/* Describe the problem. */
void stack_status_describe(enum stack_status status, uint64_t node, uint64_t missing, char *text,
                           size_t size);

#endif
