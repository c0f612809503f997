/* SPDX-License-Identifier: Apache-2.0 */
/* Read symbol tables, within a limit for all of them: sections of a hostile file may overlap. */
#include "recorder/reader/symbol_tables.h"

#include <elfutils/libdwelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/debugdata.h"
#include "profile/symbols/elf_image.h"

/* Symbols of all tables. A browser has one million. Four millions take a second. */
#define SYMBOLS_MAX (4u << 20)
#define SECTIONS_MAX 65536u
/* Limits of time: a process may wait for the result. */
#define UNPACKED_BYTES_MAX ((size_t)64 << 20)
#define CHECKSUM_BYTES_MAX (INT64_C(256) << 20)

struct reading {
    take_table_symbol *take;
    void *context;
    uint32_t symbols_left, sections_left;
};

static void read_table(struct reading *reading, Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                       enum program_symbols source)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = header->sh_entsize > 0 ? header->sh_size / header->sh_entsize : 0;
    for (size_t i = 0; data != NULL && i < count && reading->symbols_left > 0; i++) {
        GElf_Sym symbol;
        reading->symbols_left--;
        const char *name = gelf_getsym(data, (int)i, &symbol) != NULL
                               ? elf_strptr(elf, header->sh_link, symbol.st_name)
                               : NULL;
        if (name != NULL && name[0] != 0)
            reading->take(reading->context, name, &symbol, header->sh_type, source);
    }
}

/* Read all tables of one file. Return whether it has a .symtab. */
static bool read_tables(struct reading *reading, Elf *elf, enum program_symbols source)
{
    bool has_symtab = false;
    GElf_Shdr header;
    for (Elf_Scn *section = NULL;
         (section = elf_nextscn(elf, section)) != NULL && reading->sections_left > 0;) {
        reading->sections_left--;
        if (gelf_getshdr(section, &header) == NULL)
            continue;
        if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
            read_table(reading, elf, section, &header, source);
        has_symtab |= header.sh_type == SHT_SYMTAB;
    }
    return has_symtab;
}

static bool read_debugdata(struct reading *reading, Elf *elf)
{
    size_t bytes;
    char *unpacked = debugdata_unpack(elf, UNPACKED_BYTES_MAX, &bytes);
    if (unpacked == NULL)
        return false;
    Elf *packed = elf_memory(unpacked, bytes);
    bool is_read = packed != NULL && read_tables(reading, packed, PROGRAM_SYMBOLS_DEBUGDATA);
    elf_end(packed);
    free(unpacked);
    return is_read;
}

/* Return whether the debug file describes this file. */
static bool belongs(Elf *elf, Elf *debug, int debug_fd)
{
    const void *own, *other;
    GElf_Word checksum;
    ssize_t own_length = dwelf_elf_gnu_build_id(elf, &own);
    ssize_t other_length = dwelf_elf_gnu_build_id(debug, &other);
    if (own_length > 0 && other_length > 0)
        return own_length == other_length && memcmp(own, other, (size_t)own_length) == 0;
    return dwelf_elf_gnu_debuglink(elf, &checksum) != NULL &&
           elf_image_fd_has_checksum(debug_fd, CHECKSUM_BYTES_MAX, checksum);
}

static enum program_debug_use read_debug_file(struct reading *reading, Elf *elf, int debug_fd)
{
    enum program_debug_use result = PROGRAM_DEBUG_FILE_OTHER;
    Elf *debug = elf_begin(debug_fd, ELF_C_READ_MMAP, NULL);
    if (debug != NULL && elf_kind(debug) == ELF_K_ELF && belongs(elf, debug, debug_fd))
        result = read_tables(reading, debug, PROGRAM_SYMBOLS_DEBUG_FILE) ? PROGRAM_DEBUG_FILE_USED
                                                                         : PROGRAM_DEBUG_FILE_EMPTY;
    elf_end(debug);
    return result;
}

struct symbol_tables symbol_tables_read(Elf *elf, int debug_fd, take_table_symbol *take,
                                        void *context)
{
    struct reading reading = {take, context, SYMBOLS_MAX, SECTIONS_MAX};
    struct symbol_tables tables = {0};
    tables.is_whole =
        read_tables(&reading, elf, PROGRAM_SYMBOLS_FILE) || read_debugdata(&reading, elf);
    if (!tables.is_whole && debug_fd >= 0)
        tables.debug_file = read_debug_file(&reading, elf, debug_fd);
    return tables;
}
