/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a process as its dumps tell them, by the file's own ids: strings, nodes (v1:
 * frames, by the numbers that their keys were given), types. Maps are incremental: a dump adds to
 * what those before it told, and may tell an id anew. Ids are any numbers; parents may be in any
 * order, and may be missing, or go in circles.
 */
#ifndef HEAPPROFD_IMPORT_MEMORY_INFRA_STACKS_H
#define HEAPPROFD_IMPORT_MEMORY_INFRA_STACKS_H

#include "memory_infra/id_pages.h"
#include "memory_infra/read.h"
#include "profile/builder/builder.h"

struct stack_maps {
    bool any;                /* anything was told */
    bool of_event;           /* not yet merged: keeps what merging needs */
    struct id_pages strings; /* id: string of the builder */
    struct id_pages types;   /* id: index of type_names */
    struct id_pages nodes;   /* id: index below */
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

/* What an event told, to a process that was told of before. */
enum stack_news {
    STACK_NOTHING_NEW,
    STACK_MORE,
    STACK_CHANGED, /* an id has another meaning now */
};
enum stack_news stack_maps_compare(struct stack_maps *maps, const struct stack_maps *event);
/* Adds what an event told; that may be taken as it is, and is empty then. */
int stack_maps_merge(struct stack_maps *maps, struct stack_maps *event);
/* To be called where what nodes led to may not hold any more. */
void stack_maps_forget_callsites(struct stack_maps *maps);
/* Nothing is told any more; the room stays. */
void stack_maps_clear(struct stack_maps *maps);
void stack_maps_free(struct stack_maps *maps);

/* What makes callsites of nodes, for all processes. */
struct stack_resolver {
    struct builder *builder;
    /* The mapping and the place in it of an address; PROFILE_NONE: none. */
    uint32_t (*find_address)(void *context, uint64_t address, uint64_t *rel_pc);
    void *context;
    uint64_t epoch; /* to be counted up where find_address would say something else */
    uint64_t callsites_max;
    uint64_t wasted; /* nodes gone through for stacks that turned out to be broken */
    uint32_t *path;
    size_t path_capacity;
    struct stack_frame_cache {
        uint64_t epoch;
        uint32_t name, file, line, frame;
    } * cache;
};

enum stack_status {
    STACK_FOUND,
    STACK_NO_NODE,
    STACK_NO_STRING,
    STACK_CIRCLE,
    STACK_TOO_DEEP,
    STACK_TOO_MANY,
    STACK_TOO_MANY_BROKEN, /* to go through all of this one */
    STACK_NO_MEMORY,
};
/* The callsite of a node. *missing: the id that is not there, or where the circle was met. */
enum stack_status stack_resolve(struct stack_resolver *resolver, struct stack_maps *maps,
                                uint64_t node, uint32_t *callsite, uint64_t *missing);
/* The string of the builder of a type's name. False: it is in no map. */
bool stack_type(struct stack_maps *maps, uint64_t type, uint32_t *string);
/* What is wrong, for people. */
void stack_status_describe(enum stack_status status, uint64_t node, uint64_t missing, char *text,
                           size_t size);

void stack_resolver_free(struct stack_resolver *resolver);

#endif
