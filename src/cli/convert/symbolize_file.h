/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolize MemoryInfra JSON, in place or to another file: the output gets its name when it is
 * complete, and the original is kept.
 */
#ifndef HEAPPROFD_CLI_CONVERT_SYMBOLIZE_FILE_H
#define HEAPPROFD_CLI_CONVERT_SYMBOLIZE_FILE_H

#include <stdbool.h>

#include "memory_infra/symbolize.h"
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

/* Do it, and report on standard error unless quiet. *symbols, to be freed in any case, has the
 * summary. 0 or a negative errno with *error set: then nothing has changed. */
int symbolize_file_run(const struct symbolize_file *request, struct memory_infra_symbols **symbols,
                       struct error *error);

#endif
