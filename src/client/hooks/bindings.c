/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bind calls of the allocators' extended functions to their hooks.
 *
 * The library does not export these names: programs test for them to find out which allocator they
 * have. And allocators call some of them themselves, which must not count twice. So at start-up,
 * before main, the calls of each object but the allocator itself are bound anew: the words that its
 * relocations filled in with a real function's address (or, before a first call, with that of the
 * loader's resolver) get the hook's. Libraries that the program opens later keep the real
 * functions.
 *
 * If another library or the executable comes first with its malloc, nothing is bound: a block from
 * mallocx may be released by a free that is not hooked.
 */
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/elf_lookup.h"
#include "client/extended.h"
#include "client/hooks/object_words.h"
#include "client/libc/libc.h"
#include "client/modules/module_object.h"
#include "client/real_extended.h"
#include "client/system.h"

#define OBJECTS_MAX 8192u
#define PROGRAM_HEADERS_MAX 64u

static const char library_keys[EXTENDED_LIBRARIES][24] = {EXTENDED_LIBRARY_KEYS};

#define NAME(name, library, ...) {#name, EXTENDED_OF_##library},
static const struct {
    char name[56];
    uint8_t library;
} names[EXTENDED_FUNCTIONS] = {ALLOCATOR_EXTENDED(NAME)};

#define HOOK(name, ...) extended_##name,
static uint64_t (*const hooks[EXTENDED_FUNCTIONS])(EXTENDED_PARAMETERS) = {
    ALLOCATOR_EXTENDED(HOOK)};

uint64_t extended_reals[EXTENDED_FUNCTIONS];
static void *heap_visit;

void *real_heap_visit(void)
{
    return heap_visit;
}

static bool read_header(uintptr_t at, Elf64_Ehdr *header)
{
    return system_read_in_use(header, at, sizeof(*header)) &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= PROGRAM_HEADERS_MAX;
}

/* Find the pages that the loader made read-only after its relocations. Return false if the object's
 * headers are not found. */
static bool find_protected(struct object *object, const struct link_map *map)
{
    struct module_object mapped;
    Elf64_Ehdr header;
    Elf64_Phdr segments[PROGRAM_HEADERS_MAX];
    uintptr_t at = map->l_addr;
    /* An object that was linked for a fixed address has its header elsewhere. */
    if (!read_header(at, &header)) {
        if (!module_maps_find((uintptr_t)map->l_ld, &mapped) || !read_header(mapped.start, &header))
            return false;
        at = mapped.start;
    }
    if (!system_read_in_use(segments, at + header.e_phoff, header.e_phnum * sizeof(segments[0])))
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_GNU_RELRO)
            object_set_protected(object, map->l_addr + segments[i].p_vaddr, segments[i].p_memsz);
    }
    return true;
}

/* Return the hooked function with this name, or EXTENDED_FUNCTIONS. */
static unsigned function_of(const char *name)
{
    for (unsigned i = 0; i < EXTENDED_FUNCTIONS; i++) {
        if (extended_reals[i] != 0 && name[0] == names[i].name[0] &&
            strncmp(name, names[i].name, sizeof(names[i].name)) == 0)
            return i;
    }
    return EXTENDED_FUNCTIONS;
}

static uint64_t choose_hook(void *context, const struct object_word *word)
{
    (void)context;
    unsigned function = function_of(word->name);
    if (function == EXTENDED_FUNCTIONS)
        return 0;
    /* A word for a call may hold the loader's resolver; in an object that has a function of this
     * name (DT_SYMBOLIC), its own function. A word for an address may hold the address of the
     * executable's stub, which then stays the function's address for all objects. */
    bool may_be_unbound = word->is_for_call && word->is_imported;
    return may_be_unbound || word->value == extended_reals[function] ? (uint64_t)hooks[function]
                                                                     : 0;
}

static void bind_object(const struct link_map *map)
{
    struct object object = {.is_complete = true};
    if (!elf_tables_read(true, map->l_addr, (uintptr_t)map->l_ld, &object.tables) ||
        !find_protected(&object, map))
        return;
    object_words_bind(&object, choose_hook, NULL);
}

/* Find the real functions. Return whether there are any. */
static bool find_real_functions(const void *allocators[EXTENDED_LIBRARIES])
{
    bool found_any = false;
    for (int library = 0; library < EXTENDED_LIBRARIES; library++) {
        const char *key = library_keys[library];
        allocators[library] = key[0] != 0 ? elf_lookup_next(key, 1).object : NULL;
        /* Elsewhere, functions with a token call malloc, whose hook counts. */
        if ((library == EXTENDED_OF_TOKEN || library == EXTENDED_OF_FAST_TOKEN) &&
            allocators[library] != elf_lookup_next("malloc", 1).object)
            allocators[library] = NULL;
    }
    for (unsigned i = 0; i < EXTENDED_FUNCTIONS; i++) {
        const void *allocator = allocators[names[i].library];
        if (allocator == NULL || elf_lookup_is_shadowed(names[i].name))
            continue;
        struct elf_found found = elf_lookup_next(names[i].name, 1);
        if (found.object == allocator)
            extended_reals[i] = (uint64_t)found.address;
        found_any |= extended_reals[i] != 0;
    }
    if (allocators[EXTENDED_OF_MIMALLOC] != NULL)
        heap_visit = elf_lookup_next(EXTENDED_HEAP_VISIT, 1).address;
    return found_any;
}

__attribute__((constructor(102))) static void bind_at_start(void)
{
    const void *allocators[EXTENDED_LIBRARIES];
    if (elf_lookup_is_shadowed("malloc") || !find_real_functions(allocators))
        return;
    const struct link_map *map = libc_objects();
    for (unsigned i = 0; i < OBJECTS_MAX && map != NULL; i++, map = map->l_next) {
        bool is_allocator = false;
        for (int library = 0; library < EXTENDED_LIBRARIES; library++)
            is_allocator |= map == allocators[library];
        if (!is_allocator)
            bind_object(map);
    }
}
