/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes of symbolize.h: the frames, regions and answers of a file. */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_SYMBOLIZE_PRIVATE_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_SYMBOLIZE_PRIVATE_H

#include <stdio.h>

#include "profile/memory_infra/read.h"
#include "profile/memory_infra/symbolize.h"
#include "profile/symbols/elf_image.h"
#include "trace/intern.h"
#include "util/id_map.h"

#define NONE UINT32_MAX

/* Distinct strings, by index. */
struct texts {
    char **items;
    size_t count, capacity;
    struct intern_table ids; /* the index + 1 */
};
/* Return the index of a string. NONE: no memory. */
uint32_t texts_add(struct texts *texts, const char *text, size_t length);
void texts_free(struct texts *texts);

struct vm_region {
    uint64_t start, end, offset;
    uint32_t file, build_id; /* texts; "": unknown */
    uint32_t first;          /* index of the region where this mapping of its file begins */
    bool has_offset;
};

/* The regions of a process in one of its dumps. */
struct region_list {
    struct vm_region *items;
    size_t count, capacity;
    uint64_t hash;
    uint32_t event; /* the first dump that has them */
};

struct dump_process {
    int64_t pid;
    struct region_list *lists;
    size_t list_count, list_capacity;
    struct id_map strings;  /* string id: its pc_frame */
    struct id_map list_ids; /* by hash: the latest of the lists */
};

/* A `pc:` string of a process, or the redefinition of its id as another text. */
struct pc_frame {
    uint32_t process, event; /* of its definition */
    uint64_t address;
    uint64_t id;    /* of the string */
    uint32_t stamp; /* the last event that used it, + 1 */
    uint32_t use;   /* index of that use */
    bool is_name;   /* a redefinition: the id is no `pc:` string any more */
    bool is_used;   /* by a node */
    bool is_kept;   /* a node without a name, or a type, needs the string as it is */
};

/* A frame of an event's nodes, and the position of its address. */
struct pc_use {
    uint32_t event, frame;
    uint32_t module;  /* NONE: no module has the address */
    uint32_t stray;   /* enum memory_infra_stray, if no module has it */
    uint32_t answer;  /* NONE: no name */
    uint64_t address; /* virtual, in the module's file */
};

/* An event with maps or regions. */
struct dump_event {
    uint32_t process;
    uint32_t regions; /* index of the process's lists; NONE: the event has no regions */
    uint32_t first_use, use_count;
};

/* A `maps` object of the file. */
struct maps_place {
    struct memory_infra_range range;
    uint32_t event;
};

/* What belongs to the trace_module of the same index. */
struct source_module {
    uint32_t *answers;       /* by address; NONE: no name */
    struct elf_image *image; /* NULL: the file is missing */
    bool unchecked;          /* the dump has no build id, so any file of this name is used */
    char *by_name;           /* that file */
    bool is_missing;         /* unchecked, and there is no such file */
};

struct source_place {
    uint32_t function, file; /* texts; file NONE: unknown */
    uint32_t line;
};

struct memory_infra_symbols {
    struct texts texts;
    struct dump_process *processes;
    size_t process_count, process_capacity;
    struct id_map process_ids;
    struct pc_frame *frames;
    size_t frame_count, frame_capacity;
    struct pc_use *uses;
    size_t use_count, use_capacity;
    struct dump_event *events;
    size_t event_count, event_capacity;
    struct maps_place *maps;
    size_t maps_count, maps_capacity;
    struct trace_addresses addresses;
    struct source_module *modules;
    size_t module_capacity;
    struct intern_table module_ids;
    /* Answers: the frames at an address, innermost first. */
    struct source_place *places;
    size_t place_count, place_capacity;
    struct answer {
        size_t place;
        uint32_t count;
    } * answers;
    size_t answer_count, answer_capacity;
    uint64_t next_id; /* above all ids of the file */
    uint64_t bytes;   /* of the file, unpacked */
    struct symbolize_report report;
    bool *unchecked; /* by module of the report */
    char warning[512];
};

/* symbolize_collect.c: read the file. */
int symbols_collect(struct memory_infra_symbols *symbols, const char *path, struct error *error);
void symbols_clear_collected(struct memory_infra_symbols *symbols);
/* symbolize_place.c: find the module of each use, and the position in its file. */
int symbols_place(struct memory_infra_symbols *symbols, struct symbol_finder *finder);

#endif
