/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files where they lie: a file by its path, or stored in a zip archive, as
 * "ARCHIVE!MEMBER", or the kernel's own library of this process.
 */
#ifndef HEAPPROFD_SYMBOLS_ELF_SOURCE_H
#define HEAPPROFD_SYMBOLS_ELF_SOURCE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

#define ELF_SOURCE_VDSO "[vdso]"

struct elf_source {
    int fd;    /* of the file or archive; -1: none */
    Elf *elf;  /* NULL: it is no ELF file */
    void *map; /* of a member, NULL: a file of its own */
    size_t map_bytes;
};

/* mapped: the file is, too, not only members of archives, which always are: one that is truncated
 * meanwhile ends in SIGBUS, see mapped_guard.h. 0; -ENOENT: there is none; -ENOEXEC: neither a file
 * nor a member; or another negative errno. To be closed in any case. */
int elf_source_open(struct elf_source *source, const char *path, bool mapped);
void elf_source_close(struct elf_source *source);

#endif
