/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supplementary file of DWARF 5 (.debug_sup), which holds what several
 * programs have in common. elfutils follows only dwz's older form of it,
 * .gnu_debugaltlink.
 */
#ifndef HEAPPROFD_SYMBOLS_SUPPLEMENTARY_H
#define HEAPPROFD_SYMBOLS_SUPPLEMENTARY_H

#include <elfutils/libdw.h>

#include "symbols/elf_source.h"

struct supplementary {
    struct elf_source source;
    Dwarf *dwarf; /* NULL: the program names none, or it is not there */
};

/* path is the program's, whose directory a relative name is relative to. */
void supplementary_open(struct supplementary *supplementary, Elf *program, const char *path);
void supplementary_close(struct supplementary *supplementary);

#endif
