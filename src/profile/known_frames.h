/*
 * Frames that are not a program's own: those of allocators and the wrappers that programs put
 * around them, of the run times of languages, and of standard libraries, whose templates stand in
 * the program's own module. Whoever asks where memory went wants to see past them.
 */
#ifndef HEAPPROFD_PROFILE_KNOWN_FRAMES_H
#define HEAPPROFD_PROFILE_KNOWN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

struct known_frames {
    const char *what; /* "libstdc++" */
    bool allocates;   /* says nothing of what the memory is for */
};

/* What a frame belongs to, by the base name of its module, the simple name of its function, and its
 * source file (each "": unknown); NULL: the program itself. */
const struct known_frames *known_frames_find(const char *module, const char *name, bool is_rust,
                                             const char *source_file);

#endif
