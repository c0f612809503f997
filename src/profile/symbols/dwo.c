/* SPDX-License-Identifier: Apache-2.0 */
/* Open a .dwo file, unpack it, and look through its units. */
#include "profile/symbols/dwo.h"

#include <dwarf.h>
#include <limits.h>

#include "profile/symbols/linked_files.h"

static bool find_unit(Dwarf *dwarf, uint64_t wanted, Dwarf_Die *die)
{
    Dwarf_Off next;
    size_t header;
    for (Dwarf_Off offset = 0;
         dwarf_next_unit(dwarf, offset, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL) == 0;
         offset = next) {
        uint64_t id;
        uint8_t type;
        if (dwarf_offdie(dwarf, offset + header, die) != NULL &&
            dwarf_cu_info(die->cu, NULL, &type, NULL, NULL, &id, NULL, NULL) == 0 &&
            type == DW_UT_split_compile && id == wanted)
            return true;
    }
    return false;
}

static bool try_path(struct dwo *dwo, const char *path, uint64_t id, Dwarf_Die *die)
{
    if (elf_source_open(&dwo->source, path, true) == 0 && dwo->source.elf != NULL &&
        elf_source_unpack(&dwo->source) == 0)
        dwo->dwarf = dwarf_begin_elf(dwo->source.elf, DWARF_C_READ, NULL);
    if (dwo->dwarf != NULL && find_unit(dwo->dwarf, id, die))
        return true;
    dwo_close(dwo);
    return false;
}

bool dwo_find(struct dwo *dwo, int fd, const char *directory, const char *name, uint64_t id,
              Dwarf_Die *die)
{
    char path[PATH_MAX];
    dwo_close(dwo);
    if (linked_files_path(fd, "", name, path) && try_path(dwo, path, id, die))
        return true;
    return directory != NULL && linked_files_path(fd, directory, name, path) &&
           try_path(dwo, path, id, die);
}

void dwo_close(struct dwo *dwo)
{
    dwarf_end(dwo->dwarf);
    dwo->dwarf = NULL;
    elf_source_close(&dwo->source);
}
