/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suffixes that compilers append to the names of functions that they have split, copied or renamed:
 * "parse.part.0", "parse.constprop.0.isra.0", "parse.cold", "parse.llvm.8163"; "parse [clone
 * .cold]" when demangled.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_CLONES_H
#define HEAPPROFD_PROFILE_SYMBOLS_CLONES_H

#include <stddef.h>

/* Return the length of a name, demangled or not, without such suffixes. */
size_t clones_name_length(const char *name);

#endif
