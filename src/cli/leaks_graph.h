/*
 * The leaks as flame graphs: directory/graph/index.html, a page that needs nothing else, and as
 * JSON for other programs index.json and, of each heap that has entries,
 * process_PID_HEAP-objects.json.
 */
#ifndef HEAPPROFD_CLI_LEAKS_GRAPH_H
#define HEAPPROFD_CLI_LEAKS_GRAPH_H

#include <limits.h>

#include "cli/leaks.h"

int leaks_write_graph(const struct leaks *leaks, const char *directory, size_t *removed,
                      struct error *error);

/* --- what files of leaks share --- */

int leaks_make_directory(const char *path, struct error *error);
/* Removes files process_PID_*SUFFIX, and counts them. 0 or a negative errno. */
int leaks_remove_old(const char *directory, const char *suffix, size_t *removed,
                     struct error *error);
/* A file that was not there; path is what it is called. NULL with an error. */
FILE *leaks_create(const char *directory, const struct leaks_heap *heap, const char *suffix,
                   char path[PATH_MAX], struct error *error);
/* 0, or a negative errno if not all of it was written. */
int leaks_close(FILE *out, const char *path, struct error *error);

#endif
