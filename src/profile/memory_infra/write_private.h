/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the MemoryInfra writer: write.c, write_memory.c, write_heaps.c,
 * write_reported.c. */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_PRIVATE_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_PRIVATE_H

#include "profile/memory_infra/read.h"
#include "profile/memory_infra/write_sites.h"
#include "util/id_map.h"

/* A process's heaps at one moment: one event. */
struct written_event {
    int32_t pid;
    uint32_t process;
    size_t first, count;  /* its dumps in the document */
    uint64_t boottime_ns; /* of its first dump */
    uint64_t written_ns;  /* the same, but after the process's previous event */
    uint64_t order;
    bool ended;  /* the process had ended, with all of its heaps */
    bool final;  /* the session's last dump of a process */
    uint64_t id; /* of its global dump */
};

#define REGION_BYTE_COUNTS 6

struct written_region {
    const char *file, *build_id;
    uint64_t start, size;
    uint32_t protection;
    const struct profile_mapping *mapping; /* NULL: its position in the file is unknown */
    bool has_bytes;                        /* the byte counts of a snapshot were added */
    uint32_t known;                        /* the known byte counts: enum profile_smaps_known */
    uint64_t bytes[REGION_BYTE_COUNTS];
};

/* The memory of a process over all its events: symbolize_trace takes the last. */
struct written_memory {
    int32_t pid;
    struct written_mapping *here; /* by mapping of the profile */
    uint32_t *used_mappings;
    size_t used_count;
    uint32_t *mappings; /* those that are placed, by address */
    size_t mapping_count;
    struct written_region *regions;     /* of these, at the present event */
    const struct profile_smaps **smaps; /* all snapshots of the process */
    size_t smaps_count;
    struct of_pid {
        int32_t pid;
        uint32_t index;                            /* of the profile's */
    } * all_smaps, *all_processes, *all_snapshots; /* by pid */
    uint32_t *seen, seen_now;                      /* by callsite: seen_now if already met */
    uint32_t *heap_seen;                           /* by heap: seen_now if its places were taken */
    /* Mappings by file, start and size: ids of files, and of ranges. */
    struct intern_table file_ids, range_ids;
    struct written_range {
        uint32_t first; /* index of its first mapping + 1 */
        uint32_t seen;  /* seen_now if its mappings are used */
    } * ranges;
};

/* The names of a heap, the same in all events. */
struct written_name {
    char *key;             /* of the allocator; no other of the process has it */
    char *objects;         /* of its allocated_objects */
    char *allocator_frame; /* innermost on all its stacks; NULL: they end in an allocator already */
    bool adds_frame;       /* has one */
    size_t dumps;          /* number of chosen dumps; 0: no names are made */
    size_t number;         /* among the heaps of the process, from 0 */
};

/* One heap in an event. */
struct written_heap {
    const struct export_dump *dump;
    const struct written_name *name;
    size_t first, count;   /* of the sites */
    uint64_t bytes, calls; /* sums, before anything is pruned */
};

struct document {
    const struct profile *profile;
    const struct memory_infra_write_options *options;
    FILE *out;
    struct export_dump *dumps; /* by process, time and heap */
    struct written_event *events;
    size_t dump_count, event_count;
    struct written_heap *heaps; /* one for each dump */
    struct written_name *names; /* by heap of the profile */
    struct written_memory memory;
    struct sites sites;
    const struct profile_reported **reported; /* if the options want it: by process and time */
    size_t reported_count;
    uint64_t next_id, next_guid;
    size_t events_written;
    int64_t sites_written;
};

/* Print the name and the size of an allocator, before whose attributes' end others can follow. */
void write_allocator(struct document *document, const char *name, const char *separator,
                     uint64_t bytes);
/* ,"key":"hex" */
void write_hex(FILE *out, const char *before, uint64_t value);

/* Collect the memory of all events [first, first + count) of one pid. */
int written_memory_collect(struct document *document, size_t first, size_t count);
void written_memory_free(struct written_memory *memory);
/* Print process_totals and process_mmaps, each with a comma after it. */
void write_memory(struct document *document, const struct written_event *event);

/* Sort what is reported without backtraces, and add events for processes that have nothing else. */
int written_reported_make(struct document *document);
/* Print the event's, each allocator after a separator. */
void write_reported(struct document *document, const struct written_event *event);

/* Return 0 or -ENOMEM, like all of these. */
int written_names_make(struct document *document);
void written_names_free(struct document *document);

/* Print allocators and heaps_v2 of an event. */
int write_heaps(struct document *document, const struct written_event *event);

#endif
