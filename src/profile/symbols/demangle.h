/* SPDX-License-Identifier: Apache-2.0 */
/* Readable names for mangled C++, Rust (v0 and legacy) and D names, through libiberty. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DEMANGLE_H
#define HEAPPROFD_PROFILE_SYMBOLS_DEMANGLE_H

enum demangle_mode {
    DEMANGLE_FULL,   /* the whole name */
    DEMANGLE_SIMPLE, /* without parameters and without template and generic arguments */
    DEMANGLE_NONE,   /* unchanged */
};

/* Return a malloc'd demangled name, or a malloc'd copy of a name that is not mangled. NULL: no
 * memory. */
char *demangle_name(const char *name);
char *demangle_name_as(const char *name, enum demangle_mode mode);

#endif
