/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaks as flame graphs: directory/graph/index.html, a page that needs nothing else, and as
 * JSON for other programs index.json and, of each heap that has entries,
 * process_PID_HEAP-objects.json.
 */
#ifndef HEAPPROFD_CLI_COMPARE_LEAKS_GRAPH_H
#define HEAPPROFD_CLI_COMPARE_LEAKS_GRAPH_H

#include <limits.h>

#include "cli/compare/leaks.h"
#include "util/output_file.h"

int leaks_write_graph(const struct leaks *leaks, const char *directory, size_t *removed,
                      struct error *error);

/* --- what files of leaks share --- */

/* A directory that files are written to. */
struct leaks_place {
    int fd;
    char path[PATH_MAX];
};

/* Open it; create it if it is not there. 0 or a negative errno. */
int leaks_open_place(struct leaks_place *place, const char *path, struct error *error);
/* Remove files process_PID_*SUFFIX, and count them. 0 or a negative errno. */
int leaks_remove_old(const struct leaks_place *place, const char *suffix, size_t *removed,
                     struct error *error);
/* Open a file that is not there. Its name is file->name. NULL with an error. */
FILE *leaks_create(const struct leaks_place *place, const struct leaks_heap *heap,
                   const char *suffix, struct output_file *file, struct error *error);

#endif
