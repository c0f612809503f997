/* SPDX-License-Identifier: Apache-2.0 */
/* Read the loader's list of objects, and the ranges of their segments from their program headers.
 */
#include "client/libc/first_objects.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "client/elf_lookup.h"
#include "client/libc/libc.h"
#include "client/system.h"

#define PAGE_BYTES 4096u
#define LATER_OBJECTS_MAX 8192u /* bounds a list that changes while we read it */
#define HEADERS_MAX 64u
#define HEADERS_AT_ONCE 8u /* few, because they are on the program's stack */

/* The objects that the program began with; a constructor fills this before there are threads. If
 * there are more, the rest counts as later. */
static struct listed_object first[256];
static unsigned first_count;

/* Copy memory of an object. `stays`: nothing can remove it meanwhile, so it is read even if the
 * kernel may not be asked to copy. */
static bool objects_copy(bool stays, void *to, uintptr_t from, size_t bytes)
{
    return stays ? system_read_in_use(to, from, bytes)
                 : system_read_memory(to, from, bytes) == (long)bytes;
}

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

static bool add_segments(bool stays, struct listed_object *object, uintptr_t base,
                         uintptr_t headers, unsigned count)
{
    Elf64_Phdr segments[HEADERS_AT_ONCE];
    object->start = UINTPTR_MAX;
    object->end = object->hole_start = object->hole_end = 0;
    for (unsigned i = 0; i < count && i < HEADERS_MAX; i++) {
        unsigned number = i % HEADERS_AT_ONCE;
        unsigned left = count - i < HEADERS_AT_ONCE ? count - i : HEADERS_AT_ONCE;
        if (number == 0 && !objects_copy(stays, segments, headers + i * sizeof(segments[0]),
                                         left * sizeof(segments[0])))
            return false;
        const Elf64_Phdr *segment = &segments[number];
        uintptr_t start = page_down(base + segment->p_vaddr);
        uintptr_t end = page_down(base + segment->p_vaddr + segment->p_memsz + PAGE_BYTES - 1);
        if (segment->p_type != PT_LOAD || end < start)
            continue;
        /* They are in ascending order. */
        if (object->end != 0 && start > object->end &&
            start - object->end > object->hole_end - object->hole_start) {
            object->hole_start = object->end;
            object->hole_end = start;
        }
        if (start < object->start)
            object->start = start;
        if (end > object->end)
            object->end = end;
    }
    return object->start < object->end;
}

/* Find the object's program headers. Those of an executable at a fixed address are where the kernel
 * says: its base is 0, and not where its ELF header is. */
static bool read_object(bool stays, const struct link_map *map, uintptr_t base,
                        struct listed_object *object)
{
    Elf64_Ehdr header;
    object->link_map = map;
    if (base == 0)
        return map == libc_objects() && getauxval(AT_BASE) != 0 &&
               add_segments(stays, object, 0, getauxval(AT_PHDR), (unsigned)getauxval(AT_PHNUM));
    return objects_copy(stays, &header, base, sizeof(header)) &&
           memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_phentsize == sizeof(Elf64_Phdr) &&
           add_segments(stays, object, base, base + header.e_phoff, header.e_phnum);
}

static bool object_has(const struct listed_object *object, uintptr_t address)
{
    return address - object->start < object->end - object->start &&
           !(address - object->hole_start < object->hole_end - object->hole_start);
}

/* Return the last object that is read at start-up: glibc's loader, or the last one of musl; NULL:
 * none is read. */
static const struct link_map *last_to_read(void)
{
    const struct link_map *map = libc_objects();
    bool is_musl = libc_is_musl();
    uintptr_t loader = getauxval(AT_BASE);
    if (!is_musl && (loader == 0 || elf_lookup_next("_dl_find_object", 1).address != NULL))
        return NULL;
    for (; map != NULL; map = map->l_next) {
        if (is_musl ? map->l_next == NULL : map->l_addr == loader)
            return map;
    }
    return NULL;
}

__attribute__((constructor(101))) static void read_first_objects(void)
{
    const struct link_map *map = libc_objects(), *last = last_to_read();
    while (last != NULL && first_count < sizeof(first) / sizeof(first[0])) {
        struct listed_object *object = &first[first_count++];
        if (!read_object(true, map, map->l_addr, object))
            object->start = object->end = 0;
        if (map == last)
            break;
        map = map->l_next;
    }
}

bool first_objects_find(uintptr_t address, struct listed_object *found)
{
    for (unsigned i = 0; i < first_count; i++) {
        if (object_has(&first[i], address)) {
            *found = first[i];
            return true;
        }
    }
    return false;
}

bool first_objects_has(const void *link_map)
{
    for (unsigned i = 0; i < first_count; i++) {
        if (first[i].link_map == link_map)
            return true;
    }
    return false;
}

bool later_objects_are_known(void)
{
    return first_count > 0 && libc_is_musl();
}

bool later_objects_find(uintptr_t address, struct listed_object *found)
{
    const struct link_map *last = first[first_count - 1].link_map;
    const struct link_map *map = load_relaxed(&last->l_next);
    for (unsigned i = 0; i < LATER_OBJECTS_MAX && map != NULL; i++) {
        struct link_map here;
        if (!objects_copy(false, &here, (uintptr_t)map, sizeof(here)))
            return false;
        if (read_object(false, map, here.l_addr, found) && object_has(found, address))
            return true;
        map = here.l_next;
    }
    return false;
}
