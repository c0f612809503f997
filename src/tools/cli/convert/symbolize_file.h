/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to the frames of MemoryInfra JSON, in place or in another file. The output gets its
 * name when it is complete, and the original is kept.
 */
#ifndef HEAPPROFD_TOOLS_CLI_CONVERT_SYMBOLIZE_FILE_H
#define HEAPPROFD_TOOLS_CLI_CONVERT_SYMBOLIZE_FILE_H

#include <stdbool.h>

#include "profile/memory_infra/symbolize.h"
#include "util/error.h"

struct symbolize_file {
    const char *path;
    const char *out; /* NULL: in place; "-": standard output */
    bool backup;     /* in place: keep the original as PATH.BACKUP, or under the next free name */
    bool quiet;
    struct memory_infra_symbolize_options symbolizing;
};

/* Return whether the file is MemoryInfra JSON, judged by its first bytes. */
bool symbolize_file_is_json(const char *path);

/* Symbolize the file, and print a summary to standard error unless quiet. *symbols has the figures
 * of the summary; the caller frees it, even after an error. Return 0, or a negative errno with
 * *error set and nothing changed. */
int symbolize_file_run(const struct symbolize_file *request, struct memory_infra_symbols **symbols,
                       struct error *error);

#endif
