/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which callsites, functions and modules of two profiles are the same.
 *
 * Addresses cannot decide it: they differ between builds. A function is identified by its name
 * (demangled, without the suffixes that compilers append to clones, such as ".isra.0"; Python's
 * also by the base name of their file), a module by its file's base name without a version
 * (libfoo.so.1.2 is libfoo.so), and a callsite by the functions and modules of its stack; with
 * `lines`, by their source files and lines, too. A frame without a name is identified by its
 * address if both profiles have the same build of its module. Otherwise all such frames of a module
 * count as one.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_MATCHING_H
#define HEAPPROFD_PROFILE_COMPARE_MATCHING_H

#include "profile/profile.h"

struct matching_options {
    bool lines;
    bool addresses; /* fill matching_side.exact with numbers by address; else it equals `callsites`
                     */
    /* Base names of a program's two files, to be treated as one program; or NULL. */
    const char *programs[2];
};

/* Numbers, from 1. Equal numbers mean equal things, across both sides. */
struct matching_side {
    uint64_t *callsites; /* by callsite */
    uint64_t *exact;     /* by callsite: with addresses, if asked for */
    uint64_t *functions; /* by frame */
    uint64_t *modules;   /* by frame */
};

struct matching {
    struct matching_side sides[2]; /* the same arrays if both sides are one profile */
    uint64_t function_count, module_count, callsite_count; /* highest numbers */
};

/* Match two profiles. matching_free() frees the result. NULL: no memory. */
struct matching *matching_new(const struct profile *before, const struct profile *after,
                              const struct matching_options *options);
void matching_free(struct matching *matching);

/* Set *base to a file's base name, and return its length without the version. */
size_t matching_module_length(const char *path, const char **base);

#endif
