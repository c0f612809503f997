/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .dwo file that libdw cannot read by itself, because zstd compresses its sections. It is found
 * where libdw looks for it.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DWO_H
#define HEAPPROFD_PROFILE_SYMBOLS_DWO_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "profile/symbols/elf_source.h"

struct dwo {
    struct elf_source source;
    Dwarf *dwarf; /* NULL: none is open */
};

/* Open the file `name` that the debug information in descriptor `fd` names, in a unit of the
 * directory (NULL: none is named), and find the unit of this id. *die is valid until the file is
 * closed. The caller has checked the places (linked_files.h). */
bool dwo_find(struct dwo *dwo, int fd, const char *directory, const char *name, uint64_t id,
              Dwarf_Die *die);
void dwo_close(struct dwo *dwo);

#endif
