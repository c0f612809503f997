/* C++, Rust (v0 and legacy) and D names for people, through libiberty. */
#ifndef HEAPPROFD_SYMBOLS_DEMANGLE_H
#define HEAPPROFD_SYMBOLS_DEMANGLE_H

/* A malloc'd demangled name, or a malloc'd copy of what was given if it is not
 * a mangled name; NULL: no memory. */
char *demangle_name(const char *name);

#endif
