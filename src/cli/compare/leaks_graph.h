/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the leaks as flame graphs: directory/graph/index.html, a page that needs no other file,
 * and JSON for other programs: index.json and, for each heap that has entries,
 * process_PID_HEAP-objects.json.
 */
#ifndef HEAPPROFD_CLI_COMPARE_LEAKS_GRAPH_H
#define HEAPPROFD_CLI_COMPARE_LEAKS_GRAPH_H

#include <limits.h>

#include "cli/compare/leaks.h"
#include "util/output_file.h"

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
