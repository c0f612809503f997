/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for addresses, from the symbol tables of ELF files (.symtab, else
 * .gnu_debugdata's, else .dynsym), read with elfutils; one pass per file,
 * sorted once.
 */
#ifndef HEAPPROFD_SYMBOLS_SYMBOLS_H
#define HEAPPROFD_SYMBOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct symbol_file;

/* Opens path; if build_id_length is not 0 the file must have that build id
 * (-ESTALE else). NULL with *error set. */
struct symbol_file *symbol_file_open(const char *path, const uint8_t *build_id,
                                     size_t build_id_length, struct error *error);
/* The same of open files: the file and its separate debug file (-1: none). They stay the caller's,
 * and no other file is opened. They are mapped: one that shrinks ends the process (SIGBUS). */
struct symbol_file *symbol_file_open_fds(int fd, int debug_fd, const uint8_t *build_id,
                                         size_t build_id_length, struct error *error);
void symbol_file_close(struct symbol_file *file);

/* Name (mangled) of the function that holds the ELF virtual address, or NULL.
 * Valid until the file is closed. */
const char *symbol_file_lookup(struct symbol_file *file, uint64_t address);

#endif
