/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of allocators that are linked into executables: a prefix before malloc's own names. If a
 * name with a prefix exists, the program uses it, so prefixed names precede the plain ones.
 */
#ifndef HEAPPROFD_READER_ALLOCATOR_NAMES_H
#define HEAPPROFD_READER_ALLOCATOR_NAMES_H

/* Rust's jemalloc, jemalloc, mimalloc, tcmalloc. */
static const char *const allocator_prefixes[] = {"_rjem_", "je_", "mi_", "tc_"};

#define ALLOCATOR_PREFIXES (sizeof(allocator_prefixes) / sizeof(allocator_prefixes[0]))

#endif
