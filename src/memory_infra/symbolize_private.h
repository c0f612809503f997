/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes of symbolize.h share: the frames, regions and answers of a file. */
#ifndef HEAPPROFD_MEMORY_INFRA_SYMBOLIZE_PRIVATE_H
#define HEAPPROFD_MEMORY_INFRA_SYMBOLIZE_PRIVATE_H

#include <stdio.h>

#include "memory_infra/json_span.h"
#include "memory_infra/read.h"
#include "memory_infra/symbolize.h"
#include "profile/id_map.h"
#include "symbols/elf_image.h"
#include "trace/intern.h"

#define NONE UINT32_MAX

/* Strings, each once, by index. */
struct texts {
    char **items;
    size_t count, capacity;
    struct intern_table ids; /* the index + 1 */
};
uint32_t texts_add(struct texts *texts, const char *text, size_t length); /* NONE: no memory */
void texts_free(struct texts *texts);

struct vm_region {
    uint64_t start, end, offset;
    uint32_t file, build_id; /* texts; "" for none */
    uint32_t first;          /* index of the first region of the same mapping of its file */
    bool has_offset;
};

/* The regions of a process as one of its dumps has them. */
struct region_list {
    struct vm_region *items;
    size_t count, capacity;
    uint64_t hash;
    uint32_t event; /* of the first dump that has them */
};

struct dump_process {
    int64_t pid;
    struct region_list *lists;
    size_t list_count, list_capacity;
    struct id_map strings;  /* heaps_v2: string id to the pc_frame that it stands for */
    struct id_map keys;     /* v1: text of the frame's key to the same */
    struct id_map list_ids; /* by hash: the latest of the lists */
};

/* `pc:` text: a string of heaps_v2, or a frame of v1. */
struct pc_frame {
    uint32_t process, event; /* where it was told first */
    uint64_t address;
    uint64_t id;           /* of the string; MEMORY_INFRA_NONE in v1 */
    uint32_t key;          /* text, in v1 */
    uint64_t inserted;     /* v1: number of the first key of what it is inlined in */
    uint32_t stamp;        /* the last event that used it, + 1 */
    uint32_t use;          /* index of that use */
    bool is_name;          /* its id has another text from here on */
    bool is_used, is_kept; /* by nodes; as it is, by some node or as a type's name */
};

/* A frame that an event's nodes are at, and what stands there. */
struct pc_use {
    uint32_t event, frame;
    uint32_t module;  /* NONE: stray */
    uint32_t answer;  /* NONE: no name */
    uint32_t stray;   /* where module is NONE */
    uint64_t address; /* virtual, in the module's file */
};

/* An event with frames, regions or v1 entries. */
struct dump_event {
    uint32_t process;
    uint32_t regions;              /* index of the process's lists; NONE: it has none */
    uint32_t first_use, use_count; /* sorted by frame */
    uint32_t dump;                 /* text of the event's id; NONE: none */
};

enum rewritten { REWRITE_MAPS, REWRITE_FRAMES, REWRITE_ENTRIES };
struct rewrite {
    struct memory_infra_range range;
    enum rewritten what;
    uint32_t event;
};

struct source_module {
    uint32_t path, build_id; /* texts */
    uint64_t *addresses;
    size_t count, capacity;
    uint32_t *answers;       /* by address, once symbolized; NONE: none */
    bool looked_at;          /* what is below is known */
    bool unchecked;          /* the dump has no build id of it: the file's own is taken for it */
    bool by_path;            /* nor has the file */
    bool is_missing;         /* nor is there one */
    struct elf_image *image; /* of a file of it; NULL: there is none */
    uint8_t id[TRACE_BUILD_ID_BYTES_MAX];
    size_t id_length;
    uint64_t load_bias; /* as in trace_module */
};

struct source_place {
    uint32_t function, file; /* texts; NONE: unknown */
    uint32_t line;
};

struct memory_infra_symbols {
    struct texts texts;
    struct dump_process *processes;
    size_t process_count, process_capacity;
    struct intern_table process_ids;
    struct pc_frame *frames;
    size_t frame_count, frame_capacity;
    struct pc_use *uses;
    size_t use_count, use_capacity;
    struct dump_event *events;
    size_t event_count, event_capacity;
    struct rewrite *rewrites;
    size_t rewrite_count, rewrite_capacity;
    struct source_module *modules;
    size_t module_count, module_capacity;
    struct intern_table module_ids;
    /* Answers: the frames at an address, innermost first. */
    struct source_place *places;
    size_t place_count, place_capacity;
    struct answer {
        size_t place;
        uint32_t count;
    } * answers;
    size_t answer_count, answer_capacity;
    uint64_t next_id, next_key; /* above all that the file has */
    uint64_t bytes;             /* of the file, unpacked */
    struct symbolize_report report;
    bool *unchecked; /* by module of the report */
    char warning[512];
};

/* "pc:55d71aa81293", and nothing else. */
bool symbols_read_pc(const char *text, size_t length, uint64_t *address);

/* symbolize_collect.c: reads the file. */
int symbols_collect(struct memory_infra_symbols *symbols, const char *path, struct error *error);
void symbols_clear_collected(struct memory_infra_symbols *symbols);
/* symbolize_place.c: which module each use is in, and where. */
int symbols_place(struct memory_infra_symbols *symbols, struct symbol_finder *finder);
/* symbolize_write.c: what each use's answer means for its frame. */
void symbols_tell_uses(struct memory_infra_symbols *symbols);
/* The frames' last uses are those of this event from now on. */
void symbols_enter(struct memory_infra_symbols *symbols, uint32_t event);
/* What stands at a frame by its last use, if that is the event's; or NULL. */
const struct answer *symbols_answer(const struct memory_infra_symbols *symbols, uint32_t event,
                                    const struct pc_frame *frame);

/* The second pass, from one part of the file to the next. */
struct rewriting {
    struct memory_infra_symbols *symbols;
    uint32_t object;   /* counts the maps, from 1 */
    size_t next_frame; /* of those that the maps so far have told */
    uint32_t frames_event, frames_use; /* v1: the event + 1, and how many of its uses came by */
    struct string_state {
        uint64_t id,
            existing; /* of the file's new string; of one that these maps have themselves */
        uint32_t needed_by, existing_in; /* objects */
    } * strings;                         /* by text */
    struct id_map existing_ids;          /* the texts of those that the maps have themselves */
    uint32_t *needed;                    /* texts that these maps get */
    size_t needed_count, needed_capacity;
    struct intern_table node_ids; /* what is inserted, by process, parent and contents */
    struct inserted_node {
        uint64_t id;
        uint32_t object; /* the last that has it */
    } * nodes;
    size_t node_count, node_capacity;
};

/* symbolize_maps.c, symbolize_v1.c: a value as it stood in the file, anew. 0; -EBADMSG: it is not
 * what the first pass saw; -ENOMEM. Errors of `out` are the caller's to look for. */
int rewrite_maps(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out);
int rewrite_frames(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out);
int rewrite_entries(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out);

static inline void span_write(FILE *out, struct json_span span)
{
    fwrite(span.at, 1, (size_t)(span.end - span.at), out);
}

#endif
