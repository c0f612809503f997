/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names for addresses, from the symbol tables of ELF files (.symtab, else
 * .gnu_debugdata's, else .dynsym), read with elfutils. Each file is read once and sorted once.
 */
#ifndef HEAPPROFD_SYMBOLS_SYMBOLS_H
#define HEAPPROFD_SYMBOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct symbol_file;

/* Open a file. If build_id_length is not 0, the file must have that build id (else -ESTALE). Return
 * NULL with *error set. */
struct symbol_file *symbol_file_open(const char *path, const uint8_t *build_id,
                                     size_t build_id_length, struct error *error);
/* Open from descriptors: the file and its separate debug file (-1: none). The caller keeps the
 * descriptors, and no other file is opened. The files are mapped: if one shrinks, SIGBUS ends the
 * process. */
struct symbol_file *symbol_file_open_fds(int fd, int debug_fd, const uint8_t *build_id,
                                         size_t build_id_length, struct error *error);
void symbol_file_close(struct symbol_file *file);

/* Return the mangled name of the function that contains the ELF virtual address, or NULL. It is
 * valid until the file is closed. */
const char *symbol_file_lookup(struct symbol_file *file, uint64_t address);

#endif
