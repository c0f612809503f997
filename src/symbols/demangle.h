/* SPDX-License-Identifier: Apache-2.0 */
/* C++, Rust (v0 and legacy) and D names for people, through libiberty. */
#ifndef HEAPPROFD_SYMBOLS_DEMANGLE_H
#define HEAPPROFD_SYMBOLS_DEMANGLE_H

#include <stdbool.h>

enum demangle_mode {
    DEMANGLE_FULL,   /* all that is in the name */
    DEMANGLE_SIMPLE, /* without parameters and the arguments of templates and generics */
    DEMANGLE_NONE,   /* as it is */
};

/* A malloc'd demangled name, or a malloc'd copy of what was given if it is not
 * a mangled name; NULL: no memory. */
char *demangle_name(const char *name);
char *demangle_name_as(const char *name, enum demangle_mode mode);

#endif
