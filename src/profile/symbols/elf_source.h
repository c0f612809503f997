/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to ELF files in place: a file by its path, a member that is stored in a zip archive
 * ("ARCHIVE!MEMBER"), or this process's vdso.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_ELF_SOURCE_H
#define HEAPPROFD_PROFILE_SYMBOLS_ELF_SOURCE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

#include "profile/symbols/packed_section.h"

#define ELF_SOURCE_VDSO "[vdso]"

struct elf_source {
    int fd;    /* of the file or archive; -1: none */
    Elf *elf;  /* NULL: not an ELF file */
    void *map; /* of a member; NULL: a separate file */
    size_t map_bytes;
    struct unpacked_sections unpacked;
};

/* Open a source. `mapped`: map the file, too (members of archives are always mapped). If a mapped
 * file is truncated, an access raises SIGBUS: see mapped_guard.h. Return 0; -ENOENT: there is none;
 * -ENOEXEC: neither a file nor a member; or another negative errno. Close the source in any case.
 */
int elf_source_open(struct elf_source *source, const char *path, bool mapped);
/* Unpack the debug sections that libdw cannot, before it reads the file. Return what
 * unpacked_sections_make() does. */
int elf_source_unpack(struct elf_source *source);
void elf_source_close(struct elf_source *source);

#endif
