/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of allocators that are linked into executables: a prefix before malloc's own names, or an
 * extended function. Nothing shows whether the program uses them, or the C library's, or both.
 */
#ifndef HEAPPROFD_RECORDER_READER_ALLOCATOR_NAMES_H
#define HEAPPROFD_RECORDER_READER_ALLOCATOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/allocator_functions.h"

/* Rust's jemalloc, jemalloc, mimalloc, tcmalloc. */
static const char *const allocator_prefixes[] = {"_rjem_", "je_", "mi_", "tc_"};

#define ALLOCATOR_PREFIXES (sizeof(allocator_prefixes) / sizeof(allocator_prefixes[0]))

/* The first ones are jemalloc's, for its extended functions, too. What the others' functions are
 * called is in the table of extended functions. */
#define ALLOCATOR_JEMALLOC_PREFIXES 2u

/* A function of Rust's default allocator, which calls malloc. Programs with another one lack it. */
#define ALLOCATOR_RUSTS_DEFAULT "__rdl_alloc"

/* Return whether a library's functions have names with one of jemalloc's prefixes, or without. */
bool allocator_names_are_of(enum extended_library library, bool with_prefix);

/* Return the plain name of a function of Rust's allocator, which newer versions mangle; else the
 * name itself. */
const char *allocator_name_demangle(const char *name);

/* Return whether this is an extended function (wire/allocator_functions.h) that allocates, or
 * releases, with any of its library's prefixes. Functions with a token show no allocator: many call
 * malloc. */
bool allocator_name_allocates(const char *name);
bool allocator_name_releases(const char *name);

#endif
