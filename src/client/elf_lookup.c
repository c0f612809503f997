/* SPDX-License-Identifier: Apache-2.0 */
/* Search the loader's list of objects. elf_tables.c reads each of them. */
#include "client/elf_lookup.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/elf_tables.h"
#include "client/libc/libc.h"
#include "client/system.h"

#define OBJECTS_MAX 8192u /* bounds a list that changes while we read it */

static const char *base_name(const char *path)
{
    const char *name = path;
    for (; *path != '\0'; path++)
        if (*path == '/')
            name = path + 1;
    return name;
}

/* Return whether an object is this library, by the address of its dynamic section. (A statically
 * linked program has none, and does not search.) */
static bool is_own(const struct link_map *map)
{
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));
    return (uintptr_t)map->l_ld == (uintptr_t)_DYNAMIC;
}

struct elf_found elf_lookup_next(const char *name, int startup)
{
    bool direct = startup != 0;
    bool is_after_own = false;
    struct link_map map;
    uintptr_t next = (uintptr_t)libc_objects();
    for (unsigned i = 0; i < OBJECTS_MAX && next != 0; i++) {
        uintptr_t here = next;
        if (!elf_tables_peek(direct, &map, here, sizeof(map)))
            break;
        next = (uintptr_t)map.l_next;
        if (!is_after_own) {
            is_after_own = is_own(&map);
            continue;
        }
        struct elf_tables tables;
        if (!elf_tables_read(direct, map.l_addr, (uintptr_t)map.l_ld, &tables))
            continue;
        void *address = elf_tables_find(direct, &tables, name);
        if (address != NULL)
            return (struct elf_found){address, base_name(map.l_name), (const void *)here};
    }
    return (struct elf_found){NULL, "", NULL};
}

struct elf_found elf_lookup_first(const char *name)
{
    const struct link_map *map = libc_objects();
    for (unsigned i = 0; i < OBJECTS_MAX && map != NULL; i++, map = map->l_next) {
        struct elf_tables tables;
        if (!elf_tables_read(true, map->l_addr, (uintptr_t)map->l_ld, &tables))
            continue;
        void *address = elf_tables_find(true, &tables, name);
        if (address != NULL)
            return (struct elf_found){address, base_name(map->l_name), map};
    }
    return (struct elf_found){NULL, "", NULL};
}

int elf_lookup_is_shadowed(const char *name)
{
    const struct link_map *map = libc_objects();
    for (unsigned i = 0; i < OBJECTS_MAX && map != NULL && !is_own(map); i++, map = map->l_next) {
        struct elf_tables tables;
        if (elf_tables_read(true, map->l_addr, (uintptr_t)map->l_ld, &tables) &&
            elf_tables_find(true, &tables, name) != NULL)
            return 1;
    }
    return 0;
}

void *elf_lookup_vdso(const char *name)
{
    uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    if (base == 0)
        return NULL;
    const ElfW(Ehdr) *header = (const void *)base;
    const ElfW(Phdr) *segments = (const void *)(base + header->e_phoff);
    uintptr_t load = base, dynamic = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD)
            load = base - segments[i].p_vaddr + segments[i].p_offset;
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = base + segments[i].p_offset;
    }
    struct elf_tables tables;
    if (dynamic == 0 || !elf_tables_read(true, load, dynamic, &tables))
        return NULL;
    return elf_tables_find(true, &tables, name);
}
