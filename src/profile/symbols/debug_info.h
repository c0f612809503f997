/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of code addresses from the DWARF of one file, versions 2 to 5, with
 * inlined functions. libdw finds alternate files (dwz: .gnu_debugaltlink, .debug_sup) and split
 * units (.dwo). Packages of split units (.dwp) are read, too. Sections may be compressed with zlib
 * or zstd.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DEBUG_INFO_H
#define HEAPPROFD_PROFILE_SYMBOLS_DEBUG_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Frames of deeper inlining are dropped. */
#define SOURCE_FRAMES_MAX 256

struct source_frame {
    const char *function; /* mangled; NULL: unknown */
    const char *file;     /* NULL: unknown */
    uint32_t line;        /* 0: unknown */
};

/* Receive the frames of addresses[index], innermost first, valid during the call. A negative result
 * ends the search. */
typedef int debug_info_sink(void *context, size_t index, struct source_frame *frames, size_t count);

struct debug_info;

/* Open a file. It needs no build id: the caller makes sure that it is the right file. Return NULL
 * with *error set, -ENOENT if it has no DWARF. */
struct debug_info *debug_info_open(const char *path, struct error *error);
void debug_info_close(struct debug_info *info);

/* Search split units in this package, too, and there first. Do nothing if the package cannot be
 * read or if there is one already. */
void debug_info_use_package(struct debug_info *info, const char *path);

/* Find addresses (ELF virtual addresses, sorted, each once) in one pass over the file. Addresses
 * that no unit covers are not reported. Return 0, the sink's result, or -ENOMEM. Damaged units are
 * skipped. */
int debug_info_find(struct debug_info *info, const uint64_t *addresses, size_t count,
                    debug_info_sink *sink, void *context);

/* Return whether nothing was damaged or missing: no unit, no split unit, no alternate or
 * supplementary file. */
bool debug_info_is_whole(struct debug_info *info);
/* Return the number of damaged units, and of units whose .dwo file is missing with the name of the
 * first such file (NULL: none). */
size_t debug_info_damaged_units(const struct debug_info *info);
size_t debug_info_missing_units(const struct debug_info *info, const char **name);

#endif
