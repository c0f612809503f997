/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of dumps in MemoryInfra's form: nodes (a name, called from a parent), names of types,
 * and figures for pairs of both. Built heap by heap; figures are rounded here.
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_SITES_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_SITES_H

#include "profile/memory_infra/write.h"
#include "trace/intern.h"
#include "util/hash_index.h"

#define SITES_NONE UINT32_MAX

/* A frame: its name and its place. Names are indexes of strings; 0 is "". */
struct site_frame {
    uint32_t name, file, line;
};

struct site_node {
    struct site_frame frame;
    uint32_t parent; /* SITES_NONE: a root; else a lower index */
    bool kept;       /* written, because a site is here or below */
    bool has_kept;   /* for the heap that is being pruned */
};

struct site {
    uint32_t node, type; /* type: index of types; 0: unknown */
    double bytes, count; /* estimates, until rounded */
    uint64_t whole_bytes, whole_count;
};

/* A mapping of the profile in the memory of the process that is being written. */
struct written_mapping {
    struct profile_mapping at; /* with the process's addresses */
    bool used;                 /* a frame is in it, or a snapshot has it */
    bool placed;               /* and its region is written, so addresses in it have a meaning */
    uint32_t next_of_range;    /* index of the next one of the same file and range + 1 */
};

struct sites {
    const struct profile *profile;
    const struct written_mapping *mappings; /* by mapping of the profile */
    enum heap_stack_mode stack_mode;
    bool at_peak;

    /* A string is a text of the profile or ours, or the label of a frame without a name. */
    struct site_string {
        const char *text; /* NULL: of the frame */
        char *owned;      /* text, if it is not the profile's */
        uint32_t frame;
        bool kept, of_frame;
    } * strings;
    size_t string_count, string_capacity;
    struct intern_table string_ids;
    struct site_frame *frames; /* by frame of the profile, valid if frame_made is generation */
    uint32_t *frame_made, generation;

    uint32_t *types; /* strings; types[0] is "[unknown]" */
    bool *type_kept;
    size_t type_count, type_capacity, type_kept_capacity;
    struct intern_table type_ids; /* by string */

    struct site_node *nodes;
    size_t node_count, node_capacity;
    struct hash_index node_index;
    /* Of native stacks: callsite_base + 1 + index of the node of each; not above it: not yet. */
    uint32_t *callsites, callsite_base;

    struct site *items;
    size_t count, capacity; /* of all heaps of an event */

    struct site_frame *stack; /* room for a stack that is put together */
    size_t stack_capacity;
    uint32_t *path; /* room for callsites */
    size_t path_capacity;
    const struct profile_thread **all_threads; /* by pid and tid */
    const struct profile_thread **threads;     /* those of the process */
    size_t thread_count;
    size_t pushed_frames; /* so far, of stacks that are put together frame by frame */
};

/* 0 or -ENOMEM, as all of these; -E2BIG if too many stacks of more than MEMORY_INFRA_FRAMES_MAX
 * frames each need nodes of their own. Begins with no nodes. */
int sites_open(struct sites *sites, const struct profile *profile,
               const struct memory_infra_write_options *options);
void sites_close(struct sites *sites);
/* Forget nodes, strings and types, and begin those of a process. */
int sites_reset(struct sites *sites, int32_t pid, const struct written_mapping *mappings);

/* Whether all stacks of a dump have malloc, operator new or the like innermost. */
bool sites_end_in_allocators(const struct profile *profile, const struct profile_dump *dump);

/* Append the sites of a dump at sites->items[first], each node and type once, without empty ones.
 * allocator_frame: the innermost frame to add to all; NULL: none. */
int sites_add(struct sites *sites, const struct export_dump *dump, const char *allocator_frame);

/* Move the figures of sites from `first` on that are below both into nodes named <other> of the
 * nearest ancestor that another site keeps. */
int sites_prune(struct sites *sites, size_t first, uint64_t bytes, uint64_t count);

/* Mark the nodes, types and strings of the sites from `first` on; [unknown] is always kept. */
void sites_keep(struct sites *sites, size_t first);

/* The text of a string; made in buffer if the string is a frame without a name. */
const char *sites_text(const struct sites *sites, uint32_t string,
                       char buffer[PROFILE_LABEL_BYTES]);

#endif
