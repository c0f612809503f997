/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the `pc:` frames of MemoryInfra heap dumps, in two passes over a file: the first
 * collects frames and regions, and the common symbolizer finds their names; the second copies the
 * file byte for byte except for the strings and nodes that change in `maps` of heaps_v2.
 *
 * A frame keeps its id and becomes the innermost function; those that it is inlined in are inserted
 * between it and its parent, with ids that are new in the file. Each process has regions and ids
 * of its own, and each dump regions of its own: a frame is looked up in those of the dump that
 * has it, then in those of the process's other dumps, the nearest first. A frame without a name
 * stays as it is.
 */
#ifndef HEAPPROFD_MEMORY_INFRA_SYMBOLIZE_H
#define HEAPPROFD_MEMORY_INFRA_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "symbolize/symbolize.h"
#include "util/error.h"

struct memory_infra_symbols;

/* Why no module has an address. */
enum memory_infra_stray {
    MEMORY_INFRA_NO_REGION, /* nothing was mapped there in any dump */
    MEMORY_INFRA_NO_MAPS,   /* the file has no regions of the process */
    MEMORY_INFRA_NO_FILE,   /* memory without a file: code that the program generated */
    MEMORY_INFRA_STRAYS,
};

struct memory_infra_summary {
    size_t frames; /* distinct addresses by process that had no name before */
    size_t named;  /* those that have a name now */
    size_t strays[MEMORY_INFRA_STRAYS];
    const struct symbolize_report *modules; /* of the files with the other addresses */
    const bool *unchecked;                  /* by module: the dump does not have its build id */
    const char *warning;                    /* about skipped events, or "" */
};

struct memory_infra_symbolize_options {
    struct symbol_finder *finder;
    struct symbolize_options symbolizing;
};

/* Do the first pass and find names. Return NULL with *error set if the file cannot be read, or is
 * malformed. */
struct memory_infra_symbols *
memory_infra_symbols_find(const char *path, const struct memory_infra_symbolize_options *options,
                          struct error *error);
void memory_infra_symbols_free(struct memory_infra_symbols *symbols);

/* Valid until freeing. */
void memory_infra_symbols_sum(const struct memory_infra_symbols *symbols,
                              struct memory_infra_summary *summary);

/* Do the second pass: write the same file, which must not have changed, to fd. Return 0 or a
 * negative errno with *error set. */
int memory_infra_symbols_write(struct memory_infra_symbols *symbols, const char *path, int fd,
                               bool gzip, struct error *error);

#endif
