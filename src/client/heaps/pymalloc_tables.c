/* SPDX-License-Identifier: Apache-2.0 */
/* Find CPython's tables of memory functions in its writable data, and change their words. */
#include "client/heaps/pymalloc_tables.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "client/client.h"
#include "client/elf_lookup.h"
#include "client/libc/libc.h"
#include "client/modules/module.h"
#include "client/system.h"

#define TABLE_WORDS 4
#define TABLES_MAX 16u /* two domains, with the debug hooks' and tracemalloc's copies six */
#define PROGRAM_HEADERS_MAX 64u
#define DATA_BYTES_MAX (64u << 20) /* that are searched; CPython has less than 2 MiB */

/* struct PyMemAllocatorEx, and the domains of PyMem_GetAllocator(). */
struct python_allocator {
    void *context;
    struct pymalloc_functions functions;
};
enum python_domain { DOMAIN_RAW = 0, DOMAIN_MEM = 1, DOMAIN_OBJ = 2 };
typedef void (*get_allocator)(enum python_domain domain, struct python_allocator *allocator);

union table {
    struct pymalloc_functions functions;
    uintptr_t words[TABLE_WORDS];
};
_Static_assert(sizeof(struct pymalloc_functions) == sizeof(((union table *)0)->words),
               "a table is four words");

static struct {
    uintptr_t *start, *end; /* writable data of the interpreter's object */
} data;

static union table original, replacement;
static bool is_replaced; /* the tables should have the replacements */
static bool is_late;     /* the interpreter may be closed: only its own threads touch its data */
static uintptr_t *tables[TABLES_MAX];
static uint32_t table_count;

/* --- finding --- */

/* Read the object's ELF header and return its program headers; NULL: it is unknown where they are.
 */
static const ElfW(Phdr) * program_headers(const struct link_map *map, unsigned *count)
{
    if (map == libc_objects()) {
        *count = (unsigned)getauxval(AT_PHNUM);
        return (const void *)getauxval(AT_PHDR);
    }
    /* A library's first segment begins with its header, at its load address. */
    ElfW(Ehdr) header;
    if (map->l_addr == 0 || !system_read_in_use(&header, map->l_addr, sizeof(header)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)))
        return NULL;
    *count = header.e_phnum;
    return (const void *)(map->l_addr + header.e_phoff);
}

/* Set `data` to the last writable segment, after what the loader has made read-only (RELRO). */
static bool find_data(uintptr_t base, const ElfW(Phdr) * segments, unsigned count)
{
    uintptr_t start = 0, end = 0, read_only_end = 0;
    for (unsigned i = 0; segments != NULL && i < count && i < PROGRAM_HEADERS_MAX; i++) {
        uintptr_t from = base + segments[i].p_vaddr, to = from + segments[i].p_memsz;
        if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_W) != 0) {
            start = from;
            end = to;
        } else if (segments[i].p_type == PT_GNU_RELRO) {
            read_only_end = to;
        }
    }
    uintptr_t page = getauxval(AT_PAGESZ);
    read_only_end = (read_only_end + page - 1) & ~(page - 1);
    if (read_only_end > start)
        start = read_only_end;
    start = (start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1);
    if (start >= end || end - start > DATA_BYTES_MAX)
        return false;
    data.start = (uintptr_t *)start;
    data.end = (uintptr_t *)(end & ~(sizeof(uintptr_t) - 1));
    return true;
}

bool pymalloc_tables_find(struct pymalloc_functions *pymalloc)
{
    struct elf_found found = elf_lookup_first("PyMem_GetAllocator");
    if (found.address == NULL)
        return false;
    const struct link_map *map = found.object;
    unsigned count = 0;
    const ElfW(Phdr) *segments = program_headers(map, &count);
    if (!find_data(map->l_addr, segments, count))
        return false;
    struct python_allocator raw, memory, objects;
    get_allocator get = (get_allocator)found.address;
    get(DOMAIN_RAW, &raw);
    get(DOMAIN_MEM, &memory);
    get(DOMAIN_OBJ, &objects);
    /* Both domains have pymalloc's functions, unless the interpreter was built without it, or with
     * debug hooks around it. The allocator of free-threaded builds, which export _Py_DecRefShared,
     * is another one. */
    if (objects.context != NULL || objects.functions.malloc == raw.functions.malloc ||
        memcmp(&objects, &memory, sizeof(objects)) != 0 ||
        elf_lookup_first("_Py_DecRefShared").address != NULL)
        return false;
    original.functions = objects.functions;
    *pymalloc = objects.functions;
    return true;
}

/* --- an interpreter that was opened later --- */

/* Return whether tables that were replaced in an earlier library still are, so that it has not been
 * closed. It may be: its memory is copied through the kernel. */
static bool earlier_is_in_place(void)
{
    uintptr_t words[TABLE_WORDS];
    for (uint32_t i = 0; i < table_count; i++) {
        if (!system_copies_memory())
            return true;
        if (system_read_memory(words, (uintptr_t)tables[i], sizeof(words)) == (long)sizeof(words) &&
            memcmp(words, replacement.words, sizeof(words)) == 0)
            return true;
    }
    return false;
}

bool pymalloc_tables_take(const struct module *module, const struct pymalloc_functions *pymalloc)
{
    if (earlier_is_in_place())
        return false;
    const ElfW(Ehdr) *header = (const void *)module->header;
    if (header->e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    data.start = NULL;
    is_late = true;
    table_count = 0;
    original.functions = *pymalloc;
    return find_data(module->load_address, (const void *)(module->header + header->e_phoff),
                     header->e_phnum);
}

/* --- changing --- */

static bool table_has(const uintptr_t *table, const union table *contents)
{
    for (int i = 0; i < TABLE_WORDS; i++)
        if (load_relaxed(&table[i]) != contents->words[i])
            return false;
    return true;
}

/* Last word first: when replacements allocate, they free already. */
static void table_set(uintptr_t *table, const union table *contents)
{
    for (int i = TABLE_WORDS - 1; i >= 0; i--)
        store_release(&table[i], contents->words[i]);
}

/* Return the next table with these contents at `from` or after it, or NULL. */
static uintptr_t *table_search(uintptr_t *from, const union table *contents)
{
    for (uintptr_t *table = from; table + TABLE_WORDS <= data.end; table++)
        if (unlikely(load_relaxed(table) == contents->words[0]) && table_has(table, contents))
            return table;
    return NULL;
}

static void remember(uintptr_t *table)
{
    for (uint32_t i = 0; i < table_count; i++)
        if (tables[i] == table)
            return;
    if (table_count < TABLES_MAX) {
        tables[table_count] = table;
        store_release(&table_count, table_count + 1);
    }
}

void pymalloc_tables_replace(const struct pymalloc_functions *replacements)
{
    replacement.functions = *replacements;
    store_release(&is_replaced, true);
    for (uintptr_t *at = data.start; (at = table_search(at, &original)) != NULL; at++) {
        remember(at);
        table_set(at, &replacement);
    }
}

void pymalloc_tables_replace_again(void)
{
    if (likely(!load_acquire(&is_replaced)) || is_late)
        return;
    for (uint32_t i = 0; i < load_acquire(&table_count); i++)
        if (unlikely(table_has(tables[i], &original)))
            table_set(tables[i], &replacement);
    /* Another thread may have restored them meanwhile. */
    if (unlikely(!load_acquire(&is_replaced)))
        pymalloc_tables_restore();
}

void pymalloc_tables_restore(void)
{
    store_release(&is_replaced, false);
    for (uintptr_t *at = data.start; (at = table_search(at, &replacement)) != NULL; at++)
        table_set(at, &original);
}
