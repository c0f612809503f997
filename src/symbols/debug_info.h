/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of code addresses from the DWARF of one file,
 * versions 2 to 5, with inlined functions. Alternate files (dwz: .gnu_debugaltlink,
 * .debug_sup) and split units (.dwo) are found as libdw finds them, and in packages of them (.dwp).
 */
#ifndef HEAPPROFD_SYMBOLS_DEBUG_INFO_H
#define HEAPPROFD_SYMBOLS_DEBUG_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Deeper inlining is cut. */
#define SOURCE_FRAMES_MAX 256

struct source_frame {
    const char *function; /* mangled; NULL: unknown */
    const char *file;     /* NULL: unknown */
    uint32_t line;        /* 0: unknown */
};

/* Told what stands at addresses[index]: innermost first; valid during the call. A negative result
 * ends the search. */
typedef int debug_info_sink(void *context, size_t index, struct source_frame *frames, size_t count);

struct debug_info;

/* The file needs not to have a build id; that it is the right one is the caller's to know. NULL
 * with *error set, -ENOENT where it has no DWARF. */
struct debug_info *debug_info_open(const char *path, struct error *error);
void debug_info_close(struct debug_info *info);

/* Split units are looked for in this package, too, and first, if it can be read and none was given
 * before; one without them costs nothing but its opening. */
void debug_info_use_package(struct debug_info *info, const char *path);

/* Goes once through the file for addresses (ELF virtual addresses, sorted, each once). Those that
 * no unit covers are not told of. 0, what the sink returned, or -ENOMEM; damaged units are passed
 * over. */
int debug_info_find(struct debug_info *info, const uint64_t *addresses, size_t count,
                    debug_info_sink *sink, void *context);

/* Nothing was damaged or missing: no split unit, nor a file of what several programs share. */
bool debug_info_is_whole(struct debug_info *info);
/* What was met meanwhile: damaged units, and units whose .dwo file is missing with the name of the
 * first (NULL: none). */
size_t debug_info_damaged_units(const struct debug_info *info);
size_t debug_info_missing_units(const struct debug_info *info, const char **name);

#endif
