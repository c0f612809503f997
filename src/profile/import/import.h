/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens every kind of heap profile as a profile: a trace, or a file of another profiler. The file's
 * first bytes decide its format (docs/formats.md); gzip, zstd and LZ4 are unpacked.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_IMPORT_H
#define HEAPPROFD_PROFILE_IMPORT_IMPORT_H

#include "profile/builder/profile_read.h"
#include "profile/symbolize/symbolize.h"

/* Like profile_read(), for any of these files. If a format has addresses and mappings, addresses
 * without names get those of this machine's files (options->find_names, local_names.h). */
struct profile *import_profile(const char *path, const struct profile_read_options *options,
                               struct error *error);
/* The same for a file's bytes in memory. */
struct profile *import_profile_bytes(const void *bytes, size_t length,
                                     const struct profile_read_options *options,
                                     struct error *error);

/* Reasons why an address of a process is in no module. */
enum import_stray {
    IMPORT_NO_REGION, /* no dump has memory there */
    IMPORT_NO_MAPS,   /* the file has no regions of the process */
    IMPORT_NO_FILE,   /* memory without a file: code that the program generated */
    IMPORT_STRAYS,
};

/* Where Chrome's memory dumps get names for their addresses (profile_read_options.naming), and what
 * was found. */
struct import_naming {
    struct symbol_finder *finder;
    struct symbolize_options symbolizing;

    struct trace_addresses addresses; /* those without a name in the file */
    struct symbolize_report report;
    bool *by_name; /* by module: the file of its name was taken, for the dump has no build id */
    size_t strays[IMPORT_STRAYS]; /* other addresses, by process */
};
/* Forget what was found. */
void import_naming_clear(struct import_naming *naming);

enum import_kind {
    IMPORT_TRACE,
    IMPORT_PPROF,
    IMPORT_HEAPTRACK,
    IMPORT_COLLAPSED,
    IMPORT_TEXT_HEAP,
    IMPORT_MEMORY_INFRA,
    IMPORT_MASSIF,
    IMPORT_DHAT,
    IMPORT_UNKNOWN, /* none of these */
};

/* Return the format of a file that begins with these (unpacked) bytes. `whole`: this is the whole
 * file. */
enum import_kind import_kind_of(const void *bytes, size_t length, bool whole);
/* Return the format of a file; IMPORT_TRACE if it is empty or cannot be read. */
enum import_kind import_kind_of_file(const char *path);
/* Return "a trace", "a pprof profile" and the like. */
const char *import_kind_words(enum import_kind kind);

#endif
