/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol look-up by DT_GNU_HASH, with DT_HASH as the fallback (the vdso of some
 * kernels). A few words of its dynamic section describe an object. Everything is
 * read with peek(), so that the look-up in an object that is unloaded meanwhile
 * fails instead of faulting.
 *
 * There is one exception. If the kernel may not be asked to copy (seccomp), peek() checks that a
 * page is readable, and reads it then. Another thread could unload the object in between. This
 * happens once for each C++ function that the start of the program did not find. Without its
 * address the program's call could not be passed on.
 */
#include "client/elf_lookup.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "client/system.h"

#define OBJECTS_MAX 8192u    /* bounds a list that changes while we read it */
#define DYNAMIC_MAX 256u     /* entries of a dynamic section */
#define CHAIN_MAX (1u << 20) /* symbols of a hash chain */

struct tables {
    uintptr_t base;
    uintptr_t symbols, strings, gnu_hash, hash;
};

/* Copy memory. Return false if it is not mapped. */
static bool peek(bool direct, void *to, uintptr_t from, size_t bytes)
{
    if (from < 4096)
        return false;
    if (direct) {
        memcpy(to, (const void *)from, bytes);
        return true;
    }
    if (system_copies_memory() || system_calls_are_forbidden())
        return system_read_memory(to, from, bytes) == (long)bytes;
    return system_read_in_use(to, from, bytes);
}

/* The loader relocates these pointers in place, except in the vdso. */
static uintptr_t relocated(uintptr_t base, uintptr_t value)
{
    return value < base ? base + value : value;
}

static bool read_tables(bool direct, uintptr_t base, uintptr_t dynamic, struct tables *tables)
{
    *tables = (struct tables){.base = base};
    for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
        ElfW(Dyn) entry;
        if (!peek(direct, &entry, dynamic + i * sizeof(entry), sizeof(entry)))
            return false;
        uintptr_t pointer = relocated(base, entry.d_un.d_ptr);
        switch (entry.d_tag) {
        case DT_NULL:
            return tables->symbols != 0 && tables->strings != 0;
        case DT_SYMTAB:
            tables->symbols = pointer;
            break;
        case DT_STRTAB:
            tables->strings = pointer;
            break;
        case DT_GNU_HASH:
            tables->gnu_hash = pointer;
            break;
        case DT_HASH:
            tables->hash = pointer;
            break;
        }
    }
    return false;
}

static bool string_equals(bool direct, uintptr_t at, const char *name, size_t length)
{
    char text[64];
    return length < sizeof(text) && peek(direct, text, at, length + 1) &&
           memcmp(text, name, length + 1) == 0;
}

/* Return the address of symbol `index` if it defines `name`. */
static void *definition(bool direct, const struct tables *tables, uint32_t index, const char *name,
                        size_t length)
{
    ElfW(Sym) symbol;
    if (!peek(direct, &symbol, tables->symbols + index * sizeof(symbol), sizeof(symbol)))
        return NULL;
    unsigned type = ELF64_ST_TYPE(symbol.st_info), bind = ELF64_ST_BIND(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || bind == STB_LOCAL)
        return NULL;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return NULL;
    if (!string_equals(direct, tables->strings + symbol.st_name, name, length))
        return NULL;
    uintptr_t address = tables->base + symbol.st_value;
    if (type == STT_GNU_IFUNC)
        return ((void *(*)(void))address)();
    return (void *)address;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static void *find_by_gnu_hash(bool direct, const struct tables *tables, const char *name,
                              size_t length)
{
    struct {
        uint32_t buckets, symbol_offset, bloom_words, bloom_shift;
    } head;
    if (!peek(direct, &head, tables->gnu_hash, sizeof(head)) || head.buckets == 0)
        return NULL;
    uint32_t wanted = gnu_hash_of(name);
    uintptr_t buckets = tables->gnu_hash + sizeof(head) + head.bloom_words * sizeof(ElfW(Addr));
    uintptr_t chain = buckets + head.buckets * sizeof(uint32_t);
    uint32_t index;
    if (!peek(direct, &index, buckets + wanted % head.buckets * sizeof(index), sizeof(index)) ||
        index < head.symbol_offset)
        return NULL;
    for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
        uint32_t hash;
        if (!peek(direct, &hash, chain + (index - head.symbol_offset) * sizeof(hash), sizeof(hash)))
            return NULL;
        if ((hash | 1) == (wanted | 1)) {
            void *address = definition(direct, tables, index, name, length);
            if (address != NULL)
                return address;
        }
        if (hash & 1)
            return NULL;
    }
    return NULL;
}

static void *find_by_hash(bool direct, const struct tables *tables, const char *name, size_t length)
{
    uint32_t head[2]; /* buckets, symbols */
    if (!peek(direct, head, tables->hash, sizeof(head)) || head[1] > CHAIN_MAX)
        return NULL;
    for (uint32_t index = 1; index < head[1]; index++) {
        void *address = definition(direct, tables, index, name, length);
        if (address != NULL)
            return address;
    }
    return NULL;
}

static void *find_in(bool direct, const struct tables *tables, const char *name)
{
    size_t length = strlen(name);
    if (tables->gnu_hash != 0)
        return find_by_gnu_hash(direct, tables, name, length);
    if (tables->hash != 0)
        return find_by_hash(direct, tables, name, length);
    return NULL;
}

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
    uintptr_t next = (uintptr_t)_r_debug.r_map;
    for (unsigned i = 0; i < OBJECTS_MAX && next != 0; i++) {
        uintptr_t here = next;
        if (!peek(direct, &map, here, sizeof(map)))
            break;
        next = (uintptr_t)map.l_next;
        if (!is_after_own) {
            is_after_own = is_own(&map);
            continue;
        }
        struct tables tables;
        if (!read_tables(direct, map.l_addr, (uintptr_t)map.l_ld, &tables))
            continue;
        void *address = find_in(direct, &tables, name);
        if (address != NULL)
            return (struct elf_found){address, base_name(map.l_name), (const void *)here};
    }
    return (struct elf_found){NULL, "", NULL};
}

int elf_lookup_is_shadowed(const char *name)
{
    const struct link_map *map = _r_debug.r_map;
    for (unsigned i = 0; i < OBJECTS_MAX && map != NULL && !is_own(map); i++, map = map->l_next) {
        struct tables tables;
        if (read_tables(true, map->l_addr, (uintptr_t)map->l_ld, &tables) &&
            find_in(true, &tables, name) != NULL)
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
    struct tables tables;
    if (dynamic == 0 || !read_tables(true, load, dynamic, &tables))
        return NULL;
    return find_in(true, &tables, name);
}
