/* SPDX-License-Identifier: Apache-2.0 */
/* Search the loader's list of objects. elf_tables.c reads each of them. */
#include "client/elf_lookup.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include "client/client.h"
#include "client/elf_tables.h"
#include "client/libc/libc.h"
#include "client/system.h"

#define OBJECTS_MAX 8192u /* bounds a list that changes while we read it */

#define AUXILIARY_MAX 64    /* the kernel gives some 25 */
#define ALIGNMENT_MIN 4096u /* of an object's image */

#ifndef HEAPPROFD_NO_HOOKS
const void *volatile client_own_address = (const void *)&client_own_address;
#endif

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
#ifdef HEAPPROFD_STATIC
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));
#else
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
#endif
    return (uintptr_t)map->l_ld == (uintptr_t)_DYNAMIC;
}

/* Find a function or object in an image of an object whose ELF header is at `base`. */
static void *find_in_image(uintptr_t base, const char *name)
{
    if (base == 0)
        return NULL;
    const ElfW(Ehdr) *header = (const void *)base;
    const ElfW(Phdr) *segments = (const void *)(base + header->e_phoff);
    uintptr_t load = base, dynamic = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
            load = base - segments[i].p_vaddr;
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = segments[i].p_vaddr;
    }
    struct elf_tables tables;
    if (dynamic == 0 || !elf_tables_read(true, load, load + dynamic, &tables))
        return NULL;
    return elf_tables_find(true, &tables, name);
}

/* --- before the loader has relocated this library --- */

/* Return the address of the loader's ELF header; 0: unknown. getauxval() cannot be called yet. */
static uintptr_t loader_image(void)
{
    struct {
        uint64_t type, value;
    } entries[AUXILIARY_MAX];
    long fd = system_call(CALL_OPEN, "/proc/self/auxv");
    long got = fd >= 0 ? system_call(CALL_READ, fd, entries, sizeof(entries)) : 0;
    if (fd >= 0)
        system_call(CALL_CLOSE, fd);
    else
        got = system_call(CALL_AUXILIARY_VECTOR, entries, sizeof(entries));
    uintptr_t loader = 0, segments = 0;
    for (long i = 0; i < got / (long)sizeof(entries[0]) && i < AUXILIARY_MAX; i++) {
        if (entries[i].type == AT_BASE)
            loader = entries[i].value;
        else if (entries[i].type == AT_PHDR)
            segments = entries[i].value;
    }
    /* A loader that was executed itself has no AT_BASE. Its program headers follow its header. */
    return loader != 0 ? loader : segments - segments % ALIGNMENT_MIN;
}

/* Return the first loaded object. Until this library is relocated, its references to the loader's
 * variables read NULL, but the loader's own symbols lead to them. */
static const struct link_map *first_object(void)
{
    if (likely(client_is_relocated()))
        return libc_objects();
    const struct r_debug *debug = find_in_image(loader_image(), "_r_debug");
    return debug != NULL ? debug->r_map : NULL;
}

struct elf_found elf_lookup_next(const char *name, int startup)
{
    bool direct = startup != 0;
    bool is_after_own = false;
    struct link_map map;
    uintptr_t next = (uintptr_t)first_object();
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
    return find_in_image(getauxval(AT_SYSINFO_EHDR), name);
}
