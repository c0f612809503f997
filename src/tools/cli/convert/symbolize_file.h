/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to the frames of MemoryInfra JSON, in place or in another file: reads the file as a
 * profile and writes it again. The output gets its name when it is complete, and the original is
 * kept.
 */
#ifndef HEAPPROFD_TOOLS_CLI_CONVERT_SYMBOLIZE_FILE_H
#define HEAPPROFD_TOOLS_CLI_CONVERT_SYMBOLIZE_FILE_H

#include <stdbool.h>

#include "profile/import/import.h"
#include "util/error.h"

struct symbolize_file {
    const char *path;
    const char *out; /* NULL: in place; "-": standard output */
    bool backup;     /* in place: keep the original as PATH.BACKUP, or under the next free name */
    bool quiet;
    struct import_naming naming; /* has the results afterwards; the caller clears them */
};

/* Return whether the file is MemoryInfra JSON, judged by its first bytes. */
bool symbolize_file_is_json(const char *path);

/* Return the number of addresses that had no name; *named: that have one now. */
size_t symbolize_file_count(const struct import_naming *naming, size_t *named);

/* Symbolize the file, and print a summary to standard error unless quiet. Return 0, or a negative
 * errno with *error set and nothing changed. */
int symbolize_file_run(struct symbolize_file *request, struct error *error);

#endif
