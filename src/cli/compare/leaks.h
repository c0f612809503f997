/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `heap_profile leaks` tells: by process and heap, the call stacks that hold most, or have
 * grown most. For people, as JSON, and as files.
 */
#ifndef HEAPPROFD_CLI_COMPARE_LEAKS_H
#define HEAPPROFD_CLI_COMPARE_LEAKS_H

#include <stdio.h>

#include "cli/compare/compare_source.h"
#include "compare/growth.h"

struct leaks_options {
    struct growth_options growth;
    enum diff_pairing pairing;
    bool shrunk; /* what shrank, too */
    bool lines, stacks, colours;
    bool all_frames; /* those of allocators, run times and standard libraries, too */
    uint64_t top;    /* entries of a heap that are printed; 0: all */
};

struct leaks_heap {
    const struct diff_pair *pair;
    const char *name;
    const struct profile_process *process; /* the first, if the pair adds up several */
    const struct profile *profile;         /* whose process that is */
    size_t process_count;
    uint32_t process_number; /* the same for heaps of one process, from 1 */
    bool is_told;            /* of unpaired ones: an earlier one is of the same process */
    struct growth_list grown, shrunk;
};

struct leaks {
    struct diff *diff;
    struct compare_source *before, *after; /* before NULL: all that is live in after */
    const struct leaks_options *options;
    struct leaks_heap *heaps; /* those of one process stand together */
    size_t heap_count;
    struct leaks_heap *unpaired; /* of processes that are not there on the other side */
    size_t unpaired_count;
};

/* Sources are chosen, and stay the caller's. 0 or -ENOMEM. */
int leaks_make(struct compare_source *before, struct compare_source *after,
               const struct leaks_options *options, struct leaks *leaks);
void leaks_clear(struct leaks *leaks);

/* Whether this heap is the first of its process. */
bool leaks_is_first_of_process(const struct leaks *leaks, size_t index);

/* 0 or -ENOMEM. */
int leaks_print_text(const struct leaks *leaks, FILE *out);
void leaks_print_json(const struct leaks *leaks, FILE *out);

/* A heap's entries as the list of a -leaks.json file. */
void leaks_print_list(const struct leaks_heap *heap, FILE *out);
/* "count_by_type": {...}, of what an entry has grown by; `sign` -1: of what it shrank by. */
void leaks_print_types(FILE *out, const struct diff_pair *pair, const struct diff_row *row,
                       double sign, bool sizes);
void leaks_print_stack(FILE *out, const struct diff_row *row);

struct leaks_written {
    size_t files, removed;
};

/* Writes process_PID_HEAP-leaks.json of each heap that has entries into directory, which is made if
 * it is not there, and takes files of that name away that an earlier run left; with graph, what
 * leaks_graph.h has, too. 0 or a negative errno. */
int leaks_write_files(const struct leaks *leaks, const char *directory, bool graph,
                      struct leaks_written *written, struct error *error);

#endif
