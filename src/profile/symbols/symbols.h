/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names for addresses, from the symbol tables of ELF files (.symtab, else
 * .gnu_debugdata's, else .dynsym), read with elfutils. The tables are read for each set of
 * addresses: ask for many at once.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SYMBOLS_H
#define HEAPPROFD_PROFILE_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
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

/* Set names[i] to the mangled name of the function that contains the ELF virtual address, or to
 * NULL. It is valid until the file is closed, and adjacent addresses of a function get the same
 * pointer. Return 0, or -ENOMEM without names. */
int symbol_file_names(struct symbol_file *file, const uint64_t *addresses, size_t count,
                      const char **names);

/* Find the start of the function with the ELF virtual address, by the file's unwind table, which a
 * stripped file has, too. Return false if there is no entry for it. */
bool symbol_file_function_start(struct symbol_file *file, uint64_t address, uint64_t *start);

#endif
