/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a loaded object. A few words of its dynamic section describe it. Everything is
 * copied through the kernel, so that the look-up in an object that is unloaded meanwhile fails
 * instead of faulting.
 *
 * There is one exception. If the kernel may not be asked to copy (seccomp), a page is checked to be
 * readable, and read then. Another thread could unload the object in between. This happens once
 * for each C++ function that the start of the program did not find. Without its address the
 * program's call could not be passed on.
 */
#ifndef HEAPPROFD_CLIENT_ELF_TABLES_H
#define HEAPPROFD_CLIENT_ELF_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_tables {
    uintptr_t base;
    uintptr_t symbols, strings, gnu_hash, hash;
    uintptr_t relocations, relocations_bytes; /* DT_RELA */
    uintptr_t plt_relocations, plt_relocations_bytes;
};

/* Copy memory; if `direct`, nobody can unmap it meanwhile. Return false if it is not mapped. */
bool elf_tables_peek(bool direct, void *to, uintptr_t from, size_t bytes);

/* Read the dynamic section of an object. Return false if it has no symbols. */
bool elf_tables_read(bool direct, uintptr_t base, uintptr_t dynamic, struct elf_tables *tables);

/* Return the address of the function or object that defines `name`, or NULL. */
void *elf_tables_find(bool direct, const struct elf_tables *tables, const char *name);

/* Return whether the object defines `name`. Runs none of its code. */
bool elf_tables_defines(bool direct, const struct elf_tables *tables, const char *name);

/* Return the address of the symbol `name`, and set its size, or return 0. */
uintptr_t elf_tables_find_sized(const struct elf_tables *tables, const char *name, uint64_t *size);

/* Return the word in which the object keeps the address of the function `name` that it imports. */
uintptr_t elf_tables_import(const struct elf_tables *tables, const char *name);

/* Return where the object keeps the module number and the offset of the thread-local variable
 * `name`, two words, as its code asks for the address of any thread's. 0: its code does not. */
uintptr_t elf_tables_thread_local(const struct elf_tables *tables, const char *name);

#endif
