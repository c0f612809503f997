/* SPDX-License-Identifier: Apache-2.0 */
/* The files of ended processes in the directory of a sink (production/sinks/directory.c): the last
 * period of each heap. */
#ifndef HEAPPROFD_TOOLS_CLI_OOM_PERIOD_FILES_H
#define HEAPPROFD_TOOLS_CLI_OOM_PERIOD_FILES_H

#include <stddef.h>

struct period_files {
    char **paths; /* the oldest first */
    size_t count;
};

/* Find them. Return 0; -ENOENT: this is no directory of periods; or another negative errno. Clear
 * the list in any case. */
int period_files_find(struct period_files *files, const char *directory);
void period_files_clear(struct period_files *files);

#endif
