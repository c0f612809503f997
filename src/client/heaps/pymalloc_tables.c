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
#include "wire/pymalloc_words.h"

#define TABLES_MAX 16u /* two domains, with the debug hooks' and tracemalloc's copies six */

/* struct PyMemAllocatorEx, and the domains of PyMem_GetAllocator(). */
struct python_allocator {
    void *context;
    struct pymalloc_functions functions;
};
enum python_domain { DOMAIN_RAW = 0, DOMAIN_MEM = 1, DOMAIN_OBJ = 2 };
typedef void (*get_allocator)(enum python_domain domain, struct python_allocator *allocator);

/* Four functions are four words. */
union table {
    struct pymalloc_functions functions;
    uint64_t words[PYMALLOC_WORDS];
};
_Static_assert(sizeof(struct pymalloc_functions) == sizeof(((union table *)0)->words),
               "a table is four words");

static struct pymalloc_data data; /* of the interpreter's object */

static union table original, replacement;
static bool is_replaced; /* the tables should have the replacements */
static bool is_late;     /* the interpreter may be closed: only its own threads touch its data */
static uint64_t *tables[TABLES_MAX];
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

static bool find_data(uintptr_t base, const ElfW(Phdr) * segments, unsigned count)
{
    return segments != NULL &&
           pymalloc_data_find(&data, base, segments, count, getauxval(AT_PAGESZ));
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
    uint64_t words[PYMALLOC_WORDS];
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
    data = (struct pymalloc_data){0, 0};
    is_late = true;
    table_count = 0;
    original.functions = *pymalloc;
    return find_data(module->load_address, (const void *)(module->header + header->e_phoff),
                     header->e_phnum);
}

/* --- changing --- */

static void remember(uint64_t *table)
{
    for (uint32_t i = 0; i < table_count; i++)
        if (tables[i] == table)
            return;
    if (table_count < TABLES_MAX) {
        tables[table_count] = table;
        store_release(&table_count, table_count + 1);
    }
}

static void change_all(const union table *from, const union table *to)
{
    uint64_t *at = (uint64_t *)data.start;
    const uint64_t *end = (const uint64_t *)data.end;
    for (; (at = pymalloc_words_search(at, end, from->words)) != NULL; at++) {
        if (to == &replacement)
            remember(at);
        pymalloc_words_set(at, to->words);
    }
}

void pymalloc_tables_replace(const struct pymalloc_functions *replacements)
{
    replacement.functions = *replacements;
    store_release(&is_replaced, true);
    change_all(&original, &replacement);
}

void pymalloc_tables_replace_again(void)
{
    if (likely(!load_acquire(&is_replaced)) || is_late)
        return;
    for (uint32_t i = 0; i < load_acquire(&table_count); i++)
        if (unlikely(pymalloc_words_are(tables[i], original.words)))
            pymalloc_words_set(tables[i], replacement.words);
    /* Another thread may have restored them meanwhile. */
    if (unlikely(!load_acquire(&is_replaced)))
        pymalloc_tables_restore();
}

void pymalloc_tables_restore(void)
{
    store_release(&is_replaced, false);
    change_all(&replacement, &original);
}
