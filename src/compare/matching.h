/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which callsites, functions and modules of two profiles are the same.
 *
 * Addresses say nothing of that: two builds have others. A function is its name (demangled, without
 * what a compiler puts behind the names of clones, such as ".isra.0"), a module is the base name of
 * its file without a version (libfoo.so.1.2 is libfoo.so), and a callsite is the functions and
 * modules of its stack; with lines, their source files and lines, too. A frame without a name is
 * told from others by its address where both profiles have the same build of its module, else it is
 * one of all such of its module.
 */
#ifndef HEAPPROFD_COMPARE_MATCHING_H
#define HEAPPROFD_COMPARE_MATCHING_H

#include "profile/profile.h"

struct matching_options {
    bool lines;
    bool addresses; /* matching_side.exact is told apart by address; else it is `callsites` */
    /* The same program under two names: NULL, or the base names of its files. */
    const char *programs[2];
};

/* Equal numbers are equal things, across both sides; from 1. */
struct matching_side {
    uint64_t *callsites; /* by callsite */
    uint64_t *exact;     /* by callsite: the same with addresses, if these were asked for */
    uint64_t *functions; /* by frame */
    uint64_t *modules;   /* by frame */
};

struct matching {
    struct matching_side sides[2]; /* the same arrays, if both are one profile */
    uint64_t function_count, module_count, callsite_count; /* numbers given out */
};

/* NULL: no memory. */
struct matching *matching_new(const struct profile *before, const struct profile *after,
                              const struct matching_options *options);
void matching_free(struct matching *matching);

/* How much of a function's name is its own. */
size_t matching_name_length(const char *name);
/* How much of a file's base name (which *base is set to) is its own. */
size_t matching_module_length(const char *path, const char **base);

#endif
