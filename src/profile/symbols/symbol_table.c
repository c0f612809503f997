/* SPDX-License-Identifier: Apache-2.0 */
/* Read symbol tables. elfutils checks what it returns; everything else is checked here. */
#include "profile/symbols/symbol_table.h"

/* --- one symbol --- */

/* Return whether a NOTYPE symbol marks something other than a function's start. */
static bool is_marker(const char *name)
{
    return name[0] == '$' || strncmp(name, ".L", 2) == 0;
}

static bool section_holds_code(Elf *elf, unsigned index, struct symbol_section *section)
{
    if (section->index == index)
        return section->holds_code;
    GElf_Shdr header;
    Elf_Scn *found = elf_getscn(elf, index);
    *section = (struct symbol_section){.index = index};
    if (found == NULL || gelf_getshdr(found, &header) == NULL)
        return false;
    section->start = header.sh_addr;
    section->holds_code = (header.sh_flags & SHF_EXECINSTR) != 0 &&
                          !__builtin_add_overflow(header.sh_addr, header.sh_size, &section->end);
    return section->holds_code;
}

bool symbol_table_get(const struct symbol_table *table, size_t index,
                      struct symbol_section *section, struct symbol *symbol)
{
    GElf_Sym entry;
    if (!symbol_table_entry(table, index, &entry))
        return false;
    unsigned char type = GELF_ST_TYPE(entry.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return false;
    if (entry.st_shndx == SHN_UNDEF || entry.st_shndx >= SHN_LORESERVE ||
        !section_holds_code(table->elf, entry.st_shndx, section) ||
        entry.st_value < section->start || entry.st_value >= section->end)
        return false;
    if (entry.st_name == 0 || entry.st_name >= table->strings_size)
        return false;
    const char *name = table->strings + entry.st_name;
    if (type == STT_NOTYPE && is_marker(name))
        return false;

    uint64_t room = section->end - entry.st_value;
    *symbol = (struct symbol){
        .start = entry.st_value,
        .end = entry.st_value + (entry.st_size < room ? entry.st_size : room),
        .section_end = section->end,
        .name = name,
        .type = type,
        .binding = GELF_ST_BIND(entry.st_info),
    };
    return true;
}

/* --- the table --- */

/* Return the string table up to its last terminated string, or NULL. */
static const char *string_table(Elf *elf, size_t section_index, size_t *size)
{
    Elf_Scn *section = elf_getscn(elf, section_index);
    GElf_Shdr header;
    if (section == NULL || gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_STRTAB)
        return NULL;
    Elf_Data *data = elf_getdata(section, NULL);
    if (data == NULL || data->d_buf == NULL || data->d_size == 0)
        return NULL;
    const char *strings = data->d_buf;
    *size = data->d_size;
    while (*size > 0 && strings[*size - 1] != '\0')
        (*size)--;
    return strings;
}

bool symbol_table_find(struct symbol_table *table, Elf *elf, unsigned type)
{
    Elf_Scn *section = NULL;
    size_t entry_size = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != type)
            continue;
        struct symbol symbol;
        *table = (struct symbol_table){.elf = elf,
                                       .is_64_bit = gelf_getclass(elf) == ELFCLASS64,
                                       .data = elf_getdata(section, NULL)};
        table->strings = string_table(elf, header.sh_link, &table->strings_size);
        if (table->data == NULL || table->data->d_buf == NULL || table->data->d_type != ELF_T_SYM ||
            entry_size == 0 || table->strings == NULL)
            continue;
        table->count = table->data->d_size / entry_size;
        if (table->count > INT32_MAX)
            table->count = INT32_MAX;
        struct symbol_section code = {0};
        for (size_t i = 1; i < table->count; i++) {
            if (symbol_table_get(table, i, &code, &symbol))
                return true;
        }
        return false;
    }
    return false;
}
