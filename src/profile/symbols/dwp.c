/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find units in packages of split DWARF.
 *
 * The index lists the bytes of each unit in each section. libdw reads .dwo files but no packages,
 * so it gets an artificial one: a header page whose section table points at the unit's parts of the
 * package, which is mapped right after the page. Nothing is copied, and nothing remains of the
 * previous unit. Compressed sections are unpacked into the memory after the file.
 */
#include "profile/symbols/dwp.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/symbols/elf_source.h"
#include "profile/symbols/packed_section.h"

#define INDEX_HEADER_BYTES 16u
#define COLUMNS_MAX 16u
/* The offsets in an index have 32 bits. */
#define SECTION_BYTES_MAX UINT32_MAX

enum part { PART_INFO, PART_ABBREV, PART_STR, PART_STR_OFFSETS, PART_RANGE_LISTS, PARTS };

static const struct {
    const char *name;
    unsigned column; /* section number in the index; 0: all units share the whole section */
    unsigned oldest; /* first index version that has it */
} parts[PARTS] = {
    [PART_INFO] = {".debug_info", 1, 2},
    [PART_ABBREV] = {".debug_abbrev", 3, 2},
    [PART_STR] = {".debug_str", 0, 2},
    [PART_STR_OFFSETS] = {".debug_str_offsets", 6, 2},
    [PART_RANGE_LISTS] = {".debug_rnglists", 8, 5},
};

struct extent {
    uint64_t offset, bytes; /* in the file, or in the memory after it */
};

struct dwp {
    uint8_t *map; /* the header page, followed by the file */
    size_t map_bytes, page_bytes;
    struct extent sections[PARTS], index;
    unsigned version, columns, units, slots;
    Elf *elf; /* of the current unit */
    Dwarf *dwarf;
};

static uint32_t word_at(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t long_at(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/* --- opening --- */

/* The sections of a package that are compressed, and where they are unpacked. */
struct packed_parts {
    struct packed_section sections[PARTS + 1];
    uint64_t offsets[PARTS + 1];
    unsigned count;
    uint64_t end; /* of the memory for the file and for them */
};

/* Return where the extent of a section is kept, or NULL. */
static struct extent *extent_of(struct dwp *dwp, const char *name)
{
    if (strcmp(name, ".debug_cu_index") == 0)
        return &dwp->index;
    for (int part = 0; part < PARTS; part++) {
        size_t length = strlen(parts[part].name);
        if (strncmp(name, parts[part].name, length) == 0 && strcmp(name + length, ".dwo") == 0)
            return &dwp->sections[part];
    }
    return NULL;
}

/* Reserve memory for a compressed section. */
static int dwp_reserve(struct packed_parts *packed, Elf *elf, Elf_Scn *section,
                       struct extent *extent)
{
    if (packed->count == PARTS + 1 ||
        !packed_section_read(elf, section, SECTION_BYTES_MAX, &packed->sections[packed->count]))
        return -ENOENT;
    *extent = (struct extent){packed->end, packed->sections[packed->count].bytes};
    packed->offsets[packed->count++] = packed->end;
    packed->end += extent->bytes;
    return 0;
}

static int find_sections(struct dwp *dwp, Elf *elf, uint64_t file_bytes,
                         struct packed_parts *packed)
{
    size_t names;
    Elf_Scn *section = NULL;
    const char *identity = elf_getident(elf, NULL);
    if (identity == NULL || elf_kind(elf) != ELF_K_ELF || identity[EI_DATA] != ELFDATA2LSB ||
        elf_getshdrstrndx(elf, &names) != 0)
        return -ENOENT;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) == NULL ? NULL : elf_strptr(elf, names, header.sh_name);
        if (name == NULL || header.sh_type == SHT_NOBITS || header.sh_offset > file_bytes ||
            header.sh_size > file_bytes - header.sh_offset)
            continue;
        struct extent *extent = extent_of(dwp, name);
        if (extent == NULL)
            continue;
        *extent = (struct extent){header.sh_offset, header.sh_size};
        if ((header.sh_flags & SHF_COMPRESSED) != 0 &&
            dwp_reserve(packed, elf, section, extent) < 0)
            return -ENOENT;
    }
    return 0;
}

/* Check the index: the table of hashes, their rows, the section numbers of the columns, offsets and
 * sizes. */
static int check_index(struct dwp *dwp)
{
    const uint8_t *at = dwp->map + dwp->page_bytes + dwp->index.offset;
    if (dwp->index.bytes < INDEX_HEADER_BYTES)
        return -ENOENT;
    dwp->version = word_at(at) & 0xffff; /* two bytes in DWARF 5, followed by padding */
    dwp->columns = word_at(at + 4);
    dwp->units = word_at(at + 8);
    dwp->slots = word_at(at + 12);
    uint64_t cells = (uint64_t)dwp->columns * (2 * (uint64_t)dwp->units + 1);
    if ((dwp->version != 2 && dwp->version != 5) || dwp->columns == 0 ||
        dwp->columns > COLUMNS_MAX || dwp->slots == 0 || (dwp->slots & (dwp->slots - 1)) != 0 ||
        dwp->units > dwp->slots ||
        dwp->index.bytes - INDEX_HEADER_BYTES < 12 * (uint64_t)dwp->slots + 4 * cells)
        return -ENOENT;
    return 0;
}

static int map_file(struct dwp *dwp, const struct elf_source *source)
{
    struct stat status;
    if (fstat(source->fd, &status) != 0 || status.st_size <= 0)
        return -ENOENT;
    dwp->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    /* The rest of the file's last page is the file's, too. */
    struct packed_parts packed = {.end = ((uint64_t)status.st_size + dwp->page_bytes - 1) &
                                         ~(uint64_t)(dwp->page_bytes - 1)};
    int result = find_sections(dwp, source->elf, (uint64_t)status.st_size, &packed);
    if (result < 0)
        return result;
    dwp->map_bytes = dwp->page_bytes + packed.end;
    uint8_t *map =
        mmap(NULL, dwp->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return -ENOMEM;
    dwp->map = map;
    if (mmap(map + dwp->page_bytes, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_FIXED,
             source->fd, 0) == MAP_FAILED)
        return -ENOMEM;
    for (unsigned i = 0; i < packed.count; i++) {
        if (packed_section_unpack(&packed.sections[i], map + dwp->page_bytes + packed.offsets[i]) <
            0)
            return -ENOENT;
    }
    return check_index(dwp);
}

struct dwp *dwp_open(const char *path)
{
    struct elf_source source;
    struct dwp *dwp = calloc(1, sizeof(*dwp));
    if (dwp == NULL)
        return NULL;
    int result = elf_source_open(&source, path, true);
    if (result == 0 && (source.elf == NULL || source.map != NULL))
        result = -ENOENT;
    if (result == 0)
        result = map_file(dwp, &source);
    elf_source_close(&source);
    if (result == 0)
        return dwp;
    dwp_close(dwp);
    return NULL;
}

static void forget_unit(struct dwp *dwp)
{
    dwarf_end(dwp->dwarf);
    elf_end(dwp->elf);
    dwp->dwarf = NULL;
    dwp->elf = NULL;
}

void dwp_close(struct dwp *dwp)
{
    if (dwp == NULL)
        return;
    forget_unit(dwp);
    if (dwp->map != NULL)
        munmap(dwp->map, dwp->map_bytes);
    free(dwp);
}

/* --- a unit --- */

/* Return the row of an id, from 1, or 0 if the package does not have it. The second hash is odd, so
 * all slots are tried. */
static unsigned dwp_find_row(const struct dwp *dwp, uint64_t id)
{
    const uint8_t *hashes = dwp->map + dwp->page_bytes + dwp->index.offset + INDEX_HEADER_BYTES;
    const uint8_t *rows = hashes + 8 * (size_t)dwp->slots;
    uint32_t mask = dwp->slots - 1, slot = (uint32_t)id & mask;
    uint32_t step = ((uint32_t)(id >> 32) & mask) | 1;
    for (unsigned tried = 0; tried < dwp->slots; tried++) {
        uint32_t row = word_at(rows + 4 * (size_t)slot);
        if (row == 0 || row > dwp->units)
            return 0;
        if (long_at(hashes + 8 * (size_t)slot) == id)
            return row;
        slot = (slot + step) & mask;
    }
    return 0;
}

/* Return the row's bytes of a section. Empty: absent or out of bounds. */
static struct extent dwp_part_of(const struct dwp *dwp, unsigned row, enum part part)
{
    const struct extent whole = dwp->sections[part];
    const uint8_t *table = dwp->map + dwp->page_bytes + dwp->index.offset + INDEX_HEADER_BYTES +
                           12 * (size_t)dwp->slots;
    if (parts[part].column == 0)
        return whole;
    for (unsigned i = 0; i < dwp->columns && dwp->version >= parts[part].oldest; i++) {
        if (word_at(table + 4 * (size_t)i) != parts[part].column)
            continue;
        size_t cell = (size_t)row * dwp->columns + i;
        uint64_t offset = word_at(table + 4 * cell);
        uint64_t bytes = word_at(table + 4 * (cell + (size_t)dwp->units * dwp->columns));
        if (offset > whole.bytes || bytes > whole.bytes - offset)
            break;
        return (struct extent){whole.offset + offset, bytes};
    }
    return (struct extent){0};
}

/* Write the header of an ELF file of these parts into the page before the package. */
static void write_header(struct dwp *dwp, const struct extent extents[PARTS])
{
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[PARTS + 2];
        char names[256];
    } *page = (void *)dwp->map;
    memset(page, 0, sizeof(*page));
    page->header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_REL,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(page->header),
        .e_shoff = sizeof(page->header),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = PARTS + 2,
        .e_shstrndx = PARTS + 1,
    };
    size_t used = 1;
    for (int part = 0; part < PARTS; part++) {
        page->sections[part + 1] = (Elf64_Shdr){
            .sh_name = (Elf64_Word)used,
            .sh_type = extents[part].bytes > 0 ? SHT_PROGBITS : SHT_NULL,
            .sh_offset = dwp->page_bytes + extents[part].offset,
            .sh_size = extents[part].bytes,
            .sh_addralign = 1,
        };
        strcpy(page->names + used, parts[part].name);
        used += strlen(parts[part].name) + 1;
    }
    page->sections[PARTS + 1] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB,
        .sh_offset = (Elf64_Off)((uint8_t *)page->names - (uint8_t *)page),
        .sh_size = sizeof(page->names),
        .sh_addralign = 1,
    };
}

static struct dwarf_bytes bytes_of(const struct dwp *dwp, struct extent extent)
{
    const uint8_t *at = dwp->map + dwp->page_bytes + extent.offset;
    return (struct dwarf_bytes){at, at + extent.bytes};
}

int dwp_find(struct dwp *dwp, uint64_t id, struct dwp_unit *unit)
{
    struct extent extents[PARTS];
    Dwarf_Off next;
    size_t header;
    unsigned row = dwp_find_row(dwp, id);
    forget_unit(dwp);
    if (row == 0)
        return -ENOENT;
    for (int part = 0; part < PARTS; part++)
        extents[part] = dwp_part_of(dwp, row, part);
    write_header(dwp, extents);
    dwp->elf = elf_memory((char *)dwp->map, dwp->map_bytes);
    dwp->dwarf = dwp->elf == NULL ? NULL : dwarf_begin_elf(dwp->elf, DWARF_C_READ, NULL);
    if (dwp->dwarf == NULL ||
        dwarf_next_unit(dwp->dwarf, 0, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL) != 0 ||
        dwarf_offdie(dwp->dwarf, header, &unit->die) == NULL)
        return -ENOENT;
    unit->abbreviations = bytes_of(dwp, extents[PART_ABBREV]);
    unit->range_lists = bytes_of(dwp, extents[PART_RANGE_LISTS]);
    return 0;
}
