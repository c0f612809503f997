/* SPDX-License-Identifier: Apache-2.0 */
/* Find symbols in the memory of another process. */
#include "recorder/attach/remote_objects.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/base_name.h"

#define PROGRAM_HEADERS_MAX 64u
#define DYNAMIC_MAX 256u /* entries of a dynamic section */
#define LIST_MAX 16384u  /* a list that changes while we read it may not end */
#define OBJECTS_MAX 4096u
#define CHAIN_MAX (1u << 20) /* symbols of a hash chain */

static bool may_read(struct remote_memory *memory, uint64_t address)
{
    return address >= 4096 && memory->reads_left > 0 && memory->reads_left-- > 0;
}

static bool peek(struct remote_memory *memory, uint64_t address, void *to, size_t bytes)
{
    return may_read(memory, address) && tracee_read(memory->tracee, address, to, bytes) == 0;
}

static size_t peek_some(struct remote_memory *memory, uint64_t address, void *to, size_t bytes)
{
    return may_read(memory, address) ? tracee_read_some(memory->tracee, address, to, bytes) : 0;
}

/* Return the address that a dynamic entry points to. The loader relocates these pointers in place
 * in most objects, but not in the vdso. */
static uint64_t relocated(uint64_t base, uint64_t value)
{
    return value < base ? base + value : value;
}

static bool read_dynamic(struct remote_memory *memory, uint64_t dynamic,
                         struct remote_object *object, uint64_t *debug)
{
    Elf64_Dyn entries[DYNAMIC_MAX];
    size_t count = peek_some(memory, dynamic, entries, sizeof(entries)) / sizeof(entries[0]);
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uint64_t pointer = relocated(object->base, entries[i].d_un.d_ptr);
        switch (entries[i].d_tag) {
        case DT_SYMTAB:
            object->symbols = pointer;
            break;
        case DT_STRTAB:
            object->strings = pointer;
            break;
        case DT_GNU_HASH:
            object->gnu_hash = pointer;
            break;
        case DT_HASH:
            object->hash = pointer;
            break;
        case DT_DEBUG:
            if (debug != NULL)
                *debug = entries[i].d_un.d_ptr;
            break;
        }
    }
    return object->symbols != 0 && object->strings != 0;
}

/* --- the list of objects --- */

static bool read_headers(const struct process *process, struct remote_memory *memory,
                         Elf64_Phdr *headers, size_t *count)
{
    *count = process->header_count;
    return *count > 0 && *count <= PROGRAM_HEADERS_MAX &&
           peek(memory, process->headers, headers, *count * sizeof(*headers));
}

bool remote_executable_base(const struct process *process, struct remote_memory *memory,
                            uint64_t *base)
{
    Elf64_Phdr headers[PROGRAM_HEADERS_MAX];
    size_t count;
    if (!read_headers(process, memory, headers, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_PHDR) {
            *base = process->headers - headers[i].p_vaddr;
            return true;
        }
    }
    /* Static executables at fixed addresses have no PT_PHDR. */
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
            const struct process_region *region = process_region_of(process, process->headers);
            if (region == NULL)
                return false;
            *base = region->start - region->offset - (headers[i].p_vaddr & ~UINT64_C(4095));
            return true;
        }
    }
    return false;
}

/* Return where the loader publishes its list for debuggers, or 0. Set *has_loader to whether the
 * program needs a loader. */
static uint64_t find_loader(const struct process *process, struct remote_memory *memory,
                            bool *has_loader)
{
    Elf64_Phdr headers[PROGRAM_HEADERS_MAX];
    size_t count;
    uint64_t base, debug = 0;
    *has_loader = false;
    if (!read_headers(process, memory, headers, &count) ||
        !remote_executable_base(process, memory, &base))
        return 0;
    for (size_t i = 0; i < count; i++) {
        *has_loader |= headers[i].p_type == PT_INTERP;
        if (headers[i].p_type == PT_DYNAMIC) {
            struct remote_object executable = {.base = base};
            read_dynamic(memory, base + headers[i].p_vaddr, &executable, &debug);
        }
    }
    return debug;
}

uint64_t remote_loader(const struct process *process, struct remote_memory *memory)
{
    bool has_loader;
    return find_loader(process, memory, &has_loader);
}

bool remote_is_loaded(const struct process *process, struct remote_memory *memory)
{
    struct r_debug list;
    bool has_loader;
    if (process->program.is_loader && !process->program.by_loader)
        return false;
    uint64_t loader = find_loader(process, memory, &has_loader);
    if (loader == 0 || !peek(memory, loader, &list, sizeof(list)))
        return !has_loader;
    return list.r_map != NULL && list.r_state == RT_CONSISTENT;
}

static void read_name(struct remote_memory *memory, uint64_t address, char *name, size_t size)
{
    char path[4096];
    size_t got = peek_some(memory, address, path, sizeof(path) - 1);
    path[got] = 0;
    const char *file = base_name(path);
    size_t length = strnlen(file, size - 1);
    memcpy(name, file, length);
    name[length] = 0;
}

static int list_links(struct remote_memory *memory, uint64_t next, struct remote_link **links,
                      size_t *count)
{
    size_t capacity = 0;
    while (next != 0 && *count < LIST_MAX) {
        struct link_map map;
        if (!peek(memory, next, &map, sizeof(map)))
            break;
        next = (uintptr_t)map.l_next;
        const struct remote_link link = {
            .base = map.l_addr, .dynamic = (uintptr_t)map.l_ld, .name = (uintptr_t)map.l_name};
        if (ARRAY_ADD(links, count, &capacity, link) < 0)
            return -ENOMEM;
    }
    return 0;
}

int remote_links_now(uint64_t loader, struct remote_memory *memory, struct remote_link **links,
                     size_t *count)
{
    struct r_debug list;
    *links = NULL;
    *count = 0;
    if (loader == 0 || !peek(memory, loader, &list, sizeof(list)))
        return 0;
    return list_links(memory, (uintptr_t)list.r_map, links, count);
}

int remote_links(uint64_t loader, struct remote_memory *memory, struct remote_link **links,
                 size_t *count)
{
    struct r_debug list;
    *links = NULL;
    *count = 0;
    if (loader != 0 && peek(memory, loader, &list, sizeof(list)) && list.r_state != RT_CONSISTENT)
        return -EAGAIN;
    return remote_links_now(loader, memory, links, count);
}

bool remote_object_of(struct remote_memory *memory, const struct remote_link *link,
                      struct remote_object *object)
{
    *object = (struct remote_object){.base = link->base, .dynamic = link->dynamic};
    read_name(memory, link->name, object->name, sizeof(object->name));
    return read_dynamic(memory, link->dynamic, object, NULL);
}

int remote_objects(const struct process *process, struct remote_memory *memory,
                   struct remote_object **objects, size_t *count)
{
    struct remote_link *links;
    size_t link_count, capacity = 0;
    *objects = NULL;
    *count = 0;
    int code = remote_links_now(remote_loader(process, memory), memory, &links, &link_count);
    for (size_t i = 0; code == 0 && i < link_count && *count < OBJECTS_MAX; i++) {
        struct remote_object object;
        if (remote_object_of(memory, &links[i], &object) &&
            ARRAY_ADD(objects, count, &capacity, object) < 0)
            code = -ENOMEM;
    }
    free(links);
    return code;
}

bool remote_object_at(struct remote_memory *memory, uint64_t address, struct remote_object *object)
{
    Elf64_Ehdr header;
    if (!peek(memory, address, &header, sizeof(header)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > PROGRAM_HEADERS_MAX)
        return false;
    Elf64_Phdr segments[PROGRAM_HEADERS_MAX];
    if (!peek(memory, address + header.e_phoff, segments, header.e_phnum * sizeof(segments[0])))
        return false;
    uint64_t load = address, dynamic = 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD)
            load = address - segments[i].p_vaddr + segments[i].p_offset;
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = address + segments[i].p_offset;
    }
    *object = (struct remote_object){.base = load};
    return dynamic != 0 && read_dynamic(memory, dynamic, object, NULL);
}

/* --- symbols --- */

static bool take_symbol(struct remote_memory *memory, const struct remote_object *object,
                        uint32_t index, const char *name, struct remote_symbol *found)
{
    Elf64_Sym symbol;
    char text[64];
    size_t length = strlen(name) + 1;
    if (!peek(memory, object->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) ||
        symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 ||
        ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
        return false;
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_NOTYPE) || length > sizeof(text) ||
        !peek(memory, object->strings + symbol.st_name, text, length) ||
        memcmp(text, name, length) != 0)
        return false;
    found->address = object->base + symbol.st_value;
    found->size = symbol.st_size;
    return true;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool find_by_gnu_hash(struct remote_memory *memory, const struct remote_object *object,
                             const char *name, struct remote_symbol *found)
{
    struct {
        uint32_t buckets, symbol_offset, bloom_words, bloom_shift;
    } head;
    if (!peek(memory, object->gnu_hash, &head, sizeof(head)) || head.buckets == 0 ||
        head.bloom_words == 0)
        return false;
    uint32_t wanted = gnu_hash_of(name), index;
    uint64_t word, words = object->gnu_hash + sizeof(head);
    if (!peek(memory, words + wanted / 64 % head.bloom_words * UINT64_C(8), &word, 8))
        return false;
    uint64_t both = UINT64_C(1) << wanted % 64 | UINT64_C(1)
                                                     << (wanted >> (head.bloom_shift & 31)) % 64;
    if ((word & both) != both)
        return false;
    uint64_t buckets = words + head.bloom_words * UINT64_C(8);
    uint64_t chain = buckets + head.buckets * UINT64_C(4);
    if (!peek(memory, buckets + wanted % head.buckets * UINT64_C(4), &index, 4) ||
        index < head.symbol_offset)
        return false;
    for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
        uint32_t hash;
        if (!peek(memory, chain + (index - head.symbol_offset) * UINT64_C(4), &hash, 4))
            return false;
        if ((hash | 1) == (wanted | 1) && take_symbol(memory, object, index, name, found))
            return true;
        if (hash & 1)
            return false;
    }
    return false;
}

bool remote_symbol_find(struct remote_memory *memory, const struct remote_object *object,
                        const char *name, struct remote_symbol *symbol)
{
    if (object->gnu_hash != 0)
        return find_by_gnu_hash(memory, object, name, symbol);
    uint32_t head[2]; /* buckets, symbols */
    if (object->hash == 0 || !peek(memory, object->hash, head, sizeof(head)) || head[1] > CHAIN_MAX)
        return false;
    for (uint32_t index = 1; index < head[1]; index++) {
        if (take_symbol(memory, object, index, name, symbol))
            return true;
    }
    return false;
}
