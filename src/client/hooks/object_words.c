/* SPDX-License-Identifier: Apache-2.0 */
/* Walk an object's relocations and write the words that they filled in. */
#include "client/hooks/object_words.h"

#include <errno.h>

#include "client/libc/libc.h"
#include "client/system.h"

static uintptr_t page_bytes(void)
{
    static uintptr_t known;
    if (load_relaxed(&known) == 0)
        store_relaxed(&known, getauxval(AT_PAGESZ));
    return load_relaxed(&known);
}

void object_set_protected(struct object *object, uintptr_t start, size_t bytes)
{
    uintptr_t mask = ~(uintptr_t)(page_bytes() - 1);
    object->protected_start = start & mask;
    object->protected_end = (start + bytes) & mask;
}

/* Return 0 if the word can be written, or a negative errno. The kernel tries it, with an operation
 * that changes nothing (a logical or with 0), so that no fault comes. Nobody waits at the word. */
static long try_to_write(uintptr_t at)
{
    long result = system_call(CALL_TEST_WRITING, at, at);
    return result < 0 ? result : 0;
}

/*
 * Return whether the word has the value now. Pages keep their protection. If a page that the loader
 * will make read-only is still writable, it may become read-only at this moment: the word stays.
 */
static bool write_word(const struct object *object, uintptr_t at, uint64_t value)
{
    bool is_protected = at >= object->protected_start && at < object->protected_end;
    uintptr_t page = at & ~(page_bytes() - 1);
    if (system_calls_are_forbidden())
        return false;
    long result = try_to_write(at);
    if (result == 0 && is_protected && !object->is_complete)
        return false;
    bool is_read_only = result == -EFAULT && is_protected;
    if (result != 0 && (!is_read_only || system_call(CALL_MAKE_WRITABLE, page, page_bytes()) != 0))
        return false;
    store_relaxed((uint64_t *)at, value);
    if (is_read_only)
        system_call(CALL_MAKE_READ_ONLY, page, page_bytes());
    return true;
}

static void bind_table(struct object *object, uintptr_t table, uintptr_t bytes,
                       object_word_choice *choose, void *context)
{
    const struct elf_tables *tables = &object->tables;
    const Elf64_Rela *relocations = (const Elf64_Rela *)table;
    for (size_t i = 0; table != 0 && i < bytes / sizeof(*relocations); i++) {
        unsigned type = ELF64_R_TYPE(relocations[i].r_info);
        uint64_t index = ELF64_R_SYM(relocations[i].r_info);
        if (index == 0 || !object_word_is_symbolic(type))
            continue;
        const Elf64_Sym *symbol = (const Elf64_Sym *)tables->symbols + index;
        uintptr_t at = tables->base + relocations[i].r_offset;
        const struct object_word word = {
            .at = at,
            .value = load_relaxed((const uint64_t *)at),
            .name = (const char *)tables->strings + symbol->st_name,
            .is_for_call = type == RELOCATION_OF_CALL,
            .is_imported = symbol->st_shndx == SHN_UNDEF,
        };
        uint64_t value = choose(context, &word);
        object->unwritten += value != 0 && !write_word(object, at, value);
    }
}

void object_words_bind(struct object *object, object_word_choice *choose, void *context)
{
    const struct elf_tables *tables = &object->tables;
    bind_table(object, tables->relocations, tables->relocations_bytes, choose, context);
    bind_table(object, tables->plt_relocations, tables->plt_relocations_bytes, choose, context);
}
