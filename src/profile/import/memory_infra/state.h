/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A MemoryInfra JSON during its conversion to a profile. Private to the importer:
 *
 *   memory_infra.c  the whole import
 *   events.c        the contents of events, as they are read
 *   resolve.c       sites, once their stacks, types and regions are known
 *   heaps.c         the profile's heaps and dumps, at the end
 *   names.c         names for addresses, if they are wanted
 *   notes.c         additions in our own files
 *
 * A process dump is one process's part of one dump: events with the same id and pid.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_STATE_H
#define HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_STATE_H

#include "profile/import/import.h"
#include "profile/import/memory_infra/regions.h"
#include "profile/import/memory_infra/stacks.h"
#include "profile/memory_infra/read.h"

#define IMPORT_NONE UINT32_MAX

struct import_process {
    int32_t pid;
    struct stack_maps maps;
    const char *name, *labels; /* NULL: unknown */
    uint64_t regions_code;     /* regions with which its nodes' callsites were made */
    uint32_t last_dump;        /* the latest process dump with regions; IMPORT_NONE */
    uint32_t first_waiting;    /* first of its unresolved parts; IMPORT_NONE */
    uint32_t last_waiting;
};

struct import_dump {
    uint32_t id; /* string of the builder; 0: none */
};

struct import_process_dump {
    uint32_t dump, process;
    uint32_t before; /* the process's previous dump with other regions; IMPORT_NONE */
    uint32_t after;  /* its next dump with regions, whatever they are; IMPORT_NONE */
    double ts_us;    /* the earliest of its events: each process of a dump has its own time */
    struct region_set regions;
    bool has_regions, has_totals;
    double rss_bytes, vm_bytes, footprint_bytes;
};

/* One heap in one process dump. */
struct import_part {
    uint32_t process_dump;
    uint32_t name; /* string of the builder */
    uint64_t event, offset;
    uint32_t next_waiting; /* of the same process; IMPORT_NONE */
    bool resolved;
    struct import_row {
        uint64_t node, type; /* ids */
        double bytes, count;
    } * rows;
    struct import_site {
        uint32_t callsite, type; /* type: string of the builder */
        double bytes, count;
    } * sites; /* once resolved */
    size_t count;
};

struct import_thread {
    int32_t pid, tid;
    const char *name;
};

struct import_notes;

struct importing {
    struct builder *builder;
    struct stack_resolver resolver;
    uint32_t resolving_process, resolving_dump;
    bool resolves_last;            /* nothing comes that could be waited for */
    struct import_naming *naming;  /* NULL: no names are wanted */
    struct intern_table stray_ids; /* processes and addresses that are counted as strays */

    struct import_process *processes;
    size_t process_count, process_capacity;
    struct id_map process_ids;
    struct import_dump *dumps;
    size_t dump_count, dump_capacity;
    struct id_map dump_ids; /* by string */
    struct import_process_dump *process_dumps;
    size_t process_dump_count, process_dump_capacity;
    struct id_map process_dump_ids; /* by dump and process */
    struct import_part *parts;
    size_t part_count, part_capacity;
    struct id_map part_ids; /* by process dump and name */
    struct import_thread *threads;
    size_t thread_count, thread_capacity;

    /* The contents of the present event. */
    struct stack_maps event_maps;
    struct region_set event_regions;
    struct profile_smaps *event_smaps;
    size_t event_smaps_count, event_smaps_capacity;
    struct import_part *event_parts;
    size_t event_part_count, event_part_capacity;
    struct profile_reported *event_reported;
    size_t event_reported_count, event_reported_capacity, reported_capacity;
    bool event_has_totals;
    double event_rss_bytes, event_vm_bytes, event_footprint_bytes;

    struct import_notes *notes;
    uint64_t sampling_rate; /* from Chrome's command line; 0: unknown */
    uint64_t events, memory_dumps;
    struct error problem; /* the first */
    uint64_t problems;
};

/* Convert a file's microseconds to ns. Return 0 if they are not a time. */
static inline uint64_t import_nanoseconds(double us)
{
    return us > 0 && us < 0x1p53 ? (uint64_t)(us * 1000 + 0.5) : 0;
}

/* Return whether a region of this name is of a file, whose code can have names. */
static inline bool import_is_file(const char *path)
{
    return *path != '\0' && (*path != '[' || strcmp(path, "[vdso]") == 0);
}

/* Count a problem of an event, and keep the first. */
void importing_problem(struct importing *importing, const struct error *problem);
void import_part_free(struct import_part *part);

/* --- events.c --- */

extern const struct memory_infra_visitor import_visitor; /* whose context is the importing */
/* Forget the contents of the event. */
void import_clear_event(struct importing *importing);

/* --- resolve.c --- */

/* Make sites of a part's rows. `last`: do not wait for missing maps and regions any longer. Return
 * 0, also if the part has to wait, or -ENOMEM. */
int import_resolve_part(struct importing *importing, struct import_part *part, bool last);
/* Resolve the waiting parts of a process (IMPORT_NONE: of all processes), as `last`. */
int import_resolve_rest(struct importing *importing, uint32_t process);

/* --- heaps.c --- */

/* Make processes, threads, heaps, dumps and timelines. Return 0 or -ENOMEM. */
int import_make_heaps(struct importing *importing);

/* --- names.c --- */

/* Return 0 or -ENOMEM. */
int import_find_names(struct builder *builder, struct import_naming *naming);

/* --- notes.c --- */

/* Notes in the metadata about a process, a heap or a heap's dump. 0 or NULL: unknown. */
struct import_note {
    int32_t pid;
    uint32_t number; /* of the heap */
    const char *name, *command, *allocator, *allocator_frame;
    uint64_t parent_pid, uid;
    uint64_t interval_bytes, first_interval_bytes, start_boottime_ns, samples, weighed_samples;
    uint64_t boottime_ns, exact_bytes, exact_calls;
    struct memory_unexplained unexplained;
    bool final, incomplete, disagrees, unfinished, ended;
    const char *unseen_allocator;
    struct trace_heap_dump *losses; /* only its losses; NULL: none */
};

struct import_notes *import_notes_new(void);
void import_notes_free(struct import_notes *notes);
/* Take a scalar of the file's metadata. Return 0 or -ENOMEM. */
int import_notes_take(struct importing *importing, struct memory_infra_text key,
                      struct memory_infra_text inner, struct memory_infra_text value);
/* NULL: none. */
const struct import_note *import_notes_heap(const struct importing *importing, int32_t pid,
                                            const char *allocator);
const struct import_note *import_notes_process(const struct importing *importing, int32_t pid);
const struct import_note *import_notes_dump(const struct importing *importing,
                                            const struct import_note *heap, const char *id);

#endif
