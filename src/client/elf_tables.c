/* SPDX-License-Identifier: Apache-2.0 */
/* Look up symbols by DT_GNU_HASH, with DT_HASH as the fallback (the vdso of some kernels). */
#include "client/elf_tables.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "client/system.h"

#define DYNAMIC_MAX 256u     /* entries of a dynamic section */
#define CHAIN_MAX (1u << 20) /* symbols of a hash chain */
#define RELOCATIONS_MAX (1u << 16)

/* Copy memory. Return false if it is not mapped. */
bool elf_tables_peek(bool direct, void *to, uintptr_t from, size_t bytes)
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

/* glibc's loader relocates these pointers in place, except in the vdso. musl's does not. */
static uintptr_t relocated(uintptr_t base, uintptr_t value)
{
    return value < base ? base + value : value;
}

bool elf_tables_read(bool direct, uintptr_t base, uintptr_t dynamic, struct elf_tables *tables)
{
    *tables = (struct elf_tables){.base = base};
    for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
        ElfW(Dyn) entry;
        if (!elf_tables_peek(direct, &entry, dynamic + i * sizeof(entry), sizeof(entry)))
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
        case DT_RELA:
            tables->relocations = pointer;
            break;
        case DT_RELASZ:
            tables->relocations_bytes = entry.d_un.d_val;
            break;
        case DT_JMPREL:
            tables->plt_relocations = pointer;
            break;
        case DT_PLTRELSZ:
            tables->plt_relocations_bytes = entry.d_un.d_val;
            break;
        }
    }
    return false;
}

static bool string_equals(bool direct, uintptr_t at, const char *name, size_t length)
{
    char text[64];
    return length < sizeof(text) && elf_tables_peek(direct, text, at, length + 1) &&
           memcmp(text, name, length + 1) == 0;
}

/* Read symbol `index`. Return whether it defines `name`. */
static bool defines(bool direct, const struct elf_tables *tables, uint32_t index, const char *name,
                    ElfW(Sym) * symbol)
{
    if (!elf_tables_peek(direct, symbol, tables->symbols + index * sizeof(*symbol),
                         sizeof(*symbol)))
        return false;
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || bind == STB_LOCAL)
        return false;
    if (type != STT_FUNC && type != STT_OBJECT && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return false;
    return string_equals(direct, tables->strings + symbol->st_name, name, strlen(name));
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool find_by_gnu_hash(bool direct, const struct elf_tables *tables, const char *name,
                             ElfW(Sym) * symbol)
{
    struct {
        uint32_t buckets, symbol_offset, bloom_words, bloom_shift;
    } head;
    if (!elf_tables_peek(direct, &head, tables->gnu_hash, sizeof(head)) || head.buckets == 0)
        return false;
    uint32_t wanted = gnu_hash_of(name);
    uintptr_t buckets = tables->gnu_hash + sizeof(head) + head.bloom_words * sizeof(ElfW(Addr));
    uintptr_t chain = buckets + head.buckets * sizeof(uint32_t);
    uint32_t index;
    if (!elf_tables_peek(direct, &index, buckets + wanted % head.buckets * sizeof(index),
                         sizeof(index)) ||
        index < head.symbol_offset)
        return false;
    for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
        uint32_t hash;
        if (!elf_tables_peek(direct, &hash, chain + (index - head.symbol_offset) * sizeof(hash),
                             sizeof(hash)))
            return false;
        if ((hash | 1) == (wanted | 1) && defines(direct, tables, index, name, symbol))
            return true;
        if (hash & 1)
            return false;
    }
    return false;
}

static bool find_by_hash(bool direct, const struct elf_tables *tables, const char *name,
                         ElfW(Sym) * symbol)
{
    uint32_t head[2]; /* buckets, symbols */
    if (!elf_tables_peek(direct, head, tables->hash, sizeof(head)) || head[1] > CHAIN_MAX)
        return false;
    for (uint32_t index = 1; index < head[1]; index++) {
        if (defines(direct, tables, index, name, symbol))
            return true;
    }
    return false;
}

static bool find_symbol(bool direct, const struct elf_tables *tables, const char *name,
                        ElfW(Sym) * symbol)
{
    if (tables->gnu_hash != 0)
        return find_by_gnu_hash(direct, tables, name, symbol);
    return tables->hash != 0 && find_by_hash(direct, tables, name, symbol);
}

void *elf_tables_find(bool direct, const struct elf_tables *tables, const char *name)
{
    ElfW(Sym) symbol;
    if (!find_symbol(direct, tables, name, &symbol))
        return NULL;
    void *address = (void *)(tables->base + symbol.st_value);
    return ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC ? ((void *(*)(void))address)() : address;
}

bool elf_tables_defines(bool direct, const struct elf_tables *tables, const char *name)
{
    ElfW(Sym) symbol;
    return find_symbol(direct, tables, name, &symbol);
}

uintptr_t elf_tables_find_sized(const struct elf_tables *tables, const char *name, uint64_t *size)
{
    ElfW(Sym) symbol;
    if (!find_symbol(false, tables, name, &symbol) ||
        ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
        return 0;
    *size = symbol.st_size;
    return tables->base + symbol.st_value;
}

/* Search one table of relocations. type 0: any. */
static uintptr_t import_in(const struct elf_tables *tables, uintptr_t at, uint64_t bytes,
                           const char *name, uint32_t type)
{
    for (uint64_t i = 0; i < bytes / sizeof(ElfW(Rela)) && i < RELOCATIONS_MAX;) {
        ElfW(Rela) some[16];
        uint64_t count = bytes / sizeof(*some) - i < 16 ? bytes / sizeof(*some) - i : 16;
        if (!elf_tables_peek(false, some, at + i * sizeof(*some), count * sizeof(*some)))
            return 0;
        for (uint64_t j = 0; j < count; j++) {
            ElfW(Sym) symbol;
            uint64_t index = ELF64_R_SYM(some[j].r_info);
            if (index != 0 && (type == 0 || ELF64_R_TYPE(some[j].r_info) == type) &&
                elf_tables_peek(false, &symbol, tables->symbols + index * sizeof(symbol),
                                sizeof(symbol)) &&
                string_equals(false, tables->strings + symbol.st_name, name, strlen(name)))
                return tables->base + some[j].r_offset;
        }
        i += count;
    }
    return 0;
}

uintptr_t elf_tables_import(const struct elf_tables *tables, const char *name)
{
    uintptr_t place =
        import_in(tables, tables->plt_relocations, tables->plt_relocations_bytes, name, 0);
    return place != 0 ? place
                      : import_in(tables, tables->relocations, tables->relocations_bytes, name, 0);
}

uintptr_t elf_tables_thread_local(const struct elf_tables *tables, const char *name)
{
#ifdef __aarch64__
    const uint32_t type = R_AARCH64_TLS_DTPMOD;
#else
    const uint32_t type = R_X86_64_DTPMOD64;
#endif
    return import_in(tables, tables->relocations, tables->relocations_bytes, name, type);
}
