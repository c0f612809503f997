/* SPDX-License-Identifier: Apache-2.0 */
/* Walk an object's relocations and write the words that they filled in. */
#include "client/hooks/object_words.h"

#include <sys/mman.h>

#include "client/libc/libc.h"
#include "client/system.h"

#if defined(__x86_64__)
#define RELOCATION_OF_CALL R_X86_64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_X86_64_GLOB_DAT
#define RELOCATION_OF_WORD R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATION_OF_CALL R_AARCH64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_AARCH64_GLOB_DAT
#define RELOCATION_OF_WORD R_AARCH64_ABS64
#endif

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

/* Return whether the word has the value now. */
static bool write_word(const struct object *object, uintptr_t at, uint64_t value)
{
    bool is_protected = at >= object->protected_start && at < object->protected_end;
    uintptr_t page = at & ~(page_bytes() - 1);
    if (is_protected &&
        (system_calls_are_forbidden() ||
         system_call(SYS_mprotect, page, page_bytes(), PROT_READ | PROT_WRITE) != 0))
        return false;
    store_relaxed((uint64_t *)at, value);
    if (is_protected)
        system_call(SYS_mprotect, page, page_bytes(), PROT_READ);
    return true;
}

static unsigned bind_table(const struct object *object, uintptr_t table, uintptr_t bytes,
                           object_word_choice *choose, void *context)
{
    const struct elf_tables *tables = &object->tables;
    const Elf64_Rela *relocations = (const Elf64_Rela *)table;
    unsigned bound = 0;
    for (size_t i = 0; table != 0 && i < bytes / sizeof(*relocations); i++) {
        unsigned type = ELF64_R_TYPE(relocations[i].r_info);
        uint64_t index = ELF64_R_SYM(relocations[i].r_info);
        if (index == 0 || (type != RELOCATION_OF_CALL && type != RELOCATION_OF_ADDRESS &&
                           type != RELOCATION_OF_WORD))
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
        bound += value != 0 && write_word(object, at, value);
    }
    return bound;
}

unsigned object_words_bind(const struct object *object, object_word_choice *choose, void *context)
{
    const struct elf_tables *tables = &object->tables;
    return bind_table(object, tables->relocations, tables->relocations_bytes, choose, context) +
           bind_table(object, tables->plt_relocations, tables->plt_relocations_bytes, choose,
                      context);
}
