/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions in the loaded objects by reading their ELF tables in memory.
 * dlsym would take the loader's lock and may allocate.
 */
#ifndef HEAPPROFD_CLIENT_ELF_LOOKUP_H
#define HEAPPROFD_CLIENT_ELF_LOOKUP_H

struct elf_found {
    void *address;           /* NULL: not found */
    const char *object_name; /* of the object that defines it: file name without directories */
    const void *object;      /* identity of that object (its link_map) */
};

/*
 * Find the first definition of `name` in the objects after this library in link
 * order, as dlsym(RTLD_NEXT) does. The kernel copies what is read of an object,
 * unless `startup` promises that no other thread can unload one.
 */
struct elf_found elf_lookup_next(const char *name, int startup);

/* Find the first definition of `name` in all loaded objects. Call it at start-up, before there are
 * threads. */
struct elf_found elf_lookup_first(const char *name);

/* Return whether an object before this library in link order defines `name`, so that calls never
 * reach this library. Call it at start-up, before there are threads. */
int elf_lookup_is_shadowed(const char *name);

/* Return a function of the vdso, or NULL. */
void *elf_lookup_vdso(const char *name);

#endif
