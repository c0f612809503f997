/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that are not a program's own: those of allocators and of the wrappers that programs put
 * around them, of language run times, and of standard libraries (whose templates are compiled into
 * the program's own module). They do not help to find where memory went.
 */
#ifndef HEAPPROFD_PROFILE_KNOWN_FRAMES_H
#define HEAPPROFD_PROFILE_KNOWN_FRAMES_H

#include <stdbool.h>

struct known_frames {
    const char *what; /* "libstdc++" */
    bool allocates;   /* only allocates, so it does not show what the memory is for */
    bool is_run_time; /* of a language: runs functions that it names */
};

/* Return the group that a frame belongs to, by the base name of its module, the simple name of its
 * function, and its source file (each "": unknown). Return NULL for the program itself. */
const struct known_frames *known_frames_find(const char *module, const char *name, bool is_rust,
                                             const char *source_file);

#endif
