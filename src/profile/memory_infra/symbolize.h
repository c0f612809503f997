/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the `pc:` frames of MemoryInfra heap dumps, in two passes over a file: the first
 * collects frames and regions, and the common symbolizer finds their names; the second copies the
 * file, except for the `maps` of heaps_v2, which it writes anew.
 *
 * A frame keeps its id and becomes the innermost function. The functions that it is inlined in are
 * inserted as nodes between it and its parent, with new ids. Each process has its own ids and
 * regions, and regions change from dump to dump: a frame is looked up in the regions of its own
 * dump, then in those of the process's other dumps, the nearest first. A frame without a name is
 * left unchanged.
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_SYMBOLIZE_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/symbolize/symbolize.h"
#include "util/error.h"

struct memory_infra_symbols;

/* Reasons why an address is in no module. */
enum memory_infra_stray {
    MEMORY_INFRA_NO_REGION, /* no dump has memory there */
    MEMORY_INFRA_NO_MAPS,   /* the file has no regions of the process */
    MEMORY_INFRA_NO_FILE,   /* memory without a file: code that the program generated */
    MEMORY_INFRA_STRAYS,
};

struct memory_infra_summary {
    size_t frames; /* distinct addresses by process that had no name before */
    size_t named;  /* those that have a name now */
    size_t strays[MEMORY_INFRA_STRAYS];
    const struct symbolize_report *modules; /* for the other addresses */
    const bool *unchecked;                  /* by module: the dump lacks its build id */
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
