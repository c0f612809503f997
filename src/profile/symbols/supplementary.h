/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supplementary file of DWARF 5 (.debug_sup), which contains what several programs share.
 * elfutils only follows dwz's older form, .gnu_debugaltlink, and only to files that it can unpack.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SUPPLEMENTARY_H
#define HEAPPROFD_PROFILE_SYMBOLS_SUPPLEMENTARY_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "profile/symbols/elf_source.h"

struct supplementary {
    struct elf_source source;
    Dwarf *dwarf;      /* NULL: the program names none, or it does not exist */
    bool is_alternate; /* of the older form */
};

/* Open the supplementary file of `program`. `path`: of the program; relative names start at its
 * directory. */
void supplementary_open(struct supplementary *supplementary, Elf *program, const char *path);
/* Open the alternate file of `program`, which is descriptor `fd`, if libdw could not. The caller
 * has checked that it is a regular file (linked_files.h). */
void supplementary_open_alternate(struct supplementary *supplementary, Dwarf *program, int fd);
void supplementary_close(struct supplementary *supplementary);

#endif
