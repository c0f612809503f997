/* SPDX-License-Identifier: Apache-2.0 */
/* The result of `heap_profile leaks`: by process and heap, the call stacks that hold most, or have
 * grown most. Printed as text, as JSON, and to files. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_LEAKS_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_LEAKS_H

#include <limits.h>
#include <stdio.h>

#include "profile/compare/leak_rows.h"
#include "tools/cli/compare/compare_format.h"
#include "tools/cli/compare/compare_source.h"
#include "util/output_file.h"

struct leaks_options {
    struct growth_options growth;
    enum diff_pairing pairing;
    bool shrunk; /* list what shrank, too */
    bool lines, stacks, colours;
    bool by_stack; /* each call stack is an entry; else those that a row of a report shows alike */
    bool all_frames; /* show frames of allocators, runtimes and standard libraries, too */
    uint64_t top;    /* printed entries per heap; 0: all */
};

struct leaks_heap {
    const struct diff_pair *pair;
    const char *name;
    const struct profile_process *process; /* the first, if the pair adds up several */
    const struct profile *profile;         /* the profile of `process` */
    size_t process_count;
    uint32_t process_number; /* from 1; heaps of one process have the same */
    bool is_reported;        /* unpaired: an earlier entry is of the same process */
    struct leak_rows rows;
};

struct leaks {
    struct diff *diff;
    struct compare_source *before, *after; /* before is NULL: all live memory of `after` */
    const struct leaks_options *options;
    struct compare_stacks stacks;
    struct leaks_heap *heaps; /* grouped by process */
    size_t heap_count;
    struct leaks_heap *unpaired; /* of processes that the other side lacks */
    size_t unpaired_count;
};

/* Fill `leaks` from sources whose dumps are chosen; the sources stay the caller's. */
void leaks_make(struct compare_source *before, struct compare_source *after,
                const struct leaks_options *options, struct leaks *leaks);
void leaks_clear(struct leaks *leaks);

/* Return what the rows of the leaks are of. */
struct leak_rows_of leaks_rows_of(const struct leaks *leaks);

/* Return whether this heap is the first of its process. */
bool leaks_is_first_of_process(const struct leaks *leaks, size_t index);

void leaks_print_text(const struct leaks *leaks, FILE *out);
void leaks_print_json(const struct leaks *leaks, FILE *out);

/* Print a heap's entries as the list of a -leaks.json file. */
void leaks_print_list(const struct leaks_heap *heap, FILE *out);

struct leaks_written {
    size_t files, removed;
};

/* Write process_PID_HEAP-leaks.json for each heap that has entries into `directory`, which is
 * created if missing, and remove such files of an earlier run. With `graph` also write the files of
 * leaks_write_graph(). Return 0 or a negative errno. */
int leaks_write_files(const struct leaks *leaks, const char *directory, bool graph,
                      struct leaks_written *written, struct error *error);

/* Write directory/graph/index.html, the web page on the dumps that were compared, and JSON for
 * other programs: index.json and, for each heap that has entries, process_PID_HEAP-objects.json.
 * Return 0 or a negative errno. */
int leaks_write_graph(const struct leaks *leaks, const char *directory, size_t *removed,
                      struct error *error);

/* --- shared by all files of leaks --- */

/* An output directory. */
struct leaks_directory {
    int fd;
    char path[PATH_MAX];
};

/* Open the directory, creating it if missing. Return 0 or a negative errno. */
int leaks_open_directory(struct leaks_directory *output, const char *path, struct error *error);
/* Remove the files process_PID_*SUFFIX, and count them in *removed. Return 0 or a negative
 * errno. */
int leaks_remove_old(const struct leaks_directory *output, const char *suffix, size_t *removed,
                     struct error *error);
/* Open a new file, whose name is in file->name. Return NULL with *error set on failure. */
FILE *leaks_create(const struct leaks_directory *output, const struct leaks_heap *heap,
                   const char *suffix, struct output_file *file, struct error *error);

#endif
