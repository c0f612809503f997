/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find functions and lines of addresses in DWARF.
 *
 * Units are processed one after the other, and only the parts that a unit's addresses need are
 * read: its line program is run, its entries are skipped over (scopes.h), and libdw gives names and
 * call sites of the functions that contain addresses.
 *
 * The file is mapped, so that only the used parts of gigabytes are read. If it is truncated
 * meanwhile, an access raises SIGBUS: see mapped_guard.h.
 */
#include "profile/symbols/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/dwo.h"
#include "profile/symbols/dwp.h"
#include "profile/symbols/elf_source.h"
#include "profile/symbols/function_entry.h"
#include "profile/symbols/line_table.h"
#include "profile/symbols/linked_files.h"
#include "profile/symbols/scopes.h"
#include "util/array.h"
#include "util/sorted_search.h"

/*
 * The supplementary file of DWARF 5 (.debug_sup), which contains what several programs share.
 * elfutils only follows dwz's older form, .gnu_debugaltlink, and only to files that it can unpack.
 * Both files have the section: the program's contains the other file's name, and both contain the
 * same checksum. The file is searched by its name, beside the program, and in Debian's directory
 * for such files.
 */

struct supplementary {
    struct elf_source source;
    Dwarf *dwarf;      /* NULL: the program names none, or it does not exist */
    bool is_alternate; /* of the older form */
};

#define SECTION ".debug_sup"
#define DEBUG_DIRECTORY "/usr/lib/debug/.dwz"
#define VERSION_DWARF5 5u
#define CHECKSUM_BYTES_MAX 127u /* a length of one byte; build ids are shorter */

struct link {
    bool is_supplementary;
    const char *name;
    const uint8_t *checksum;
    size_t checksum_bytes;
};

static bool read_link(Elf *elf, struct link *link)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf == NULL || elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) == NULL ? NULL : elf_strptr(elf, names, header.sh_name);
        if (name == NULL || header.sh_type == SHT_NOBITS || strcmp(name, SECTION) != 0)
            continue;
        Elf_Data *data = elf_rawdata(section, NULL);
        if (data == NULL || data->d_buf == NULL || data->d_size < 5)
            return false;
        const uint8_t *at = data->d_buf, *end = at + data->d_size;
        const uint8_t *zero = memchr(at + 3, 0, (size_t)(end - at - 3));
        if (at[0] != VERSION_DWARF5 || at[1] != 0 || zero == NULL || end - zero < 2 ||
            zero[1] > CHECKSUM_BYTES_MAX || end - zero - 2 < zero[1])
            return false;
        *link = (struct link){at[2] != 0, (const char *)at + 3, zero + 2, zero[1]};
        return link->checksum_bytes > 0;
    }
    return false;
}

static bool try_path(struct supplementary *supplementary, const struct link *wanted,
                     const char *directory, int length, const char *name)
{
    char path[PATH_MAX];
    struct link link;
    struct elf_source *source = &supplementary->source;
    if (snprintf(path, sizeof(path), "%.*s%s", length, directory, name) >= (int)sizeof(path))
        return false;
    if (elf_source_open(source, path, true) == 0 && elf_source_unpack(source) == 0 &&
        read_link(source->elf, &link) && link.is_supplementary &&
        link.checksum_bytes == wanted->checksum_bytes &&
        memcmp(link.checksum, wanted->checksum, link.checksum_bytes) == 0)
        supplementary->dwarf = dwarf_begin_elf(source->elf, DWARF_C_READ, NULL);
    if (supplementary->dwarf != NULL)
        return true;
    elf_source_close(source);
    return false;
}

/* Open the supplementary file of `program`. `path`: of the program; relative names start at its
 * directory. */
static void supplementary_open(struct supplementary *supplementary, Elf *program, const char *path)
{
    struct link wanted;
    const char *slash = strrchr(path, '/');
    *supplementary = (struct supplementary){.source = {.fd = -1}};
    if (!read_link(program, &wanted) || wanted.is_supplementary || *wanted.name == '\0')
        return;
    const char *last = strrchr(wanted.name, '/');
    if (*wanted.name == '/') {
        if (try_path(supplementary, &wanted, "", 0, wanted.name))
            return;
    } else if (slash != NULL) {
        if (try_path(supplementary, &wanted, path, (int)(slash - path) + 1, wanted.name))
            return;
    }
    last = last == NULL ? wanted.name : last + 1;
    try_path(supplementary, &wanted, DEBUG_DIRECTORY "/", sizeof(DEBUG_DIRECTORY "/") - 1, last);
}

/* Open the alternate file of `program`, which is descriptor `fd`, if libdw could not. The caller
 * has checked that it is a regular file (linked_files.h). */
static void supplementary_open_alternate(struct supplementary *supplementary, Dwarf *program,
                                         int fd)
{
    const char *name;
    const void *wanted, *found;
    char path[PATH_MAX];
    struct elf_source *source = &supplementary->source;
    ssize_t length = dwelf_dwarf_gnu_debugaltlink(program, &name, &wanted);
    if (length <= 0 || dwarf_getalt(program) != NULL || !linked_files_path(fd, "", name, path))
        return;
    if (elf_source_open(source, path, true) == 0 && source->elf != NULL &&
        elf_source_unpack(source) == 0 && dwelf_elf_gnu_build_id(source->elf, &found) == length &&
        memcmp(found, wanted, (size_t)length) == 0)
        supplementary->dwarf = dwarf_begin_elf(source->elf, DWARF_C_READ, NULL);
    supplementary->is_alternate = supplementary->dwarf != NULL;
    if (supplementary->dwarf == NULL)
        elf_source_close(source);
}

static void supplementary_close(struct supplementary *supplementary)
{
    dwarf_end(supplementary->dwarf);
    supplementary->dwarf = NULL;
    elf_source_close(&supplementary->source);
}

/* Limit of steps over ranges and addresses, besides work that is linear in the file. */
#define WORK_MAX (UINT64_C(1) << 31)

struct unit_address {
    uint64_t address;
    size_t index;
};

struct debug_info {
    struct elf_source source;
    struct supplementary supplementary;
    struct entry_reader entry_reader;
    Dwarf *dwarf;
    struct line_sections line_sections;
    struct dwarf_bytes abbreviations, indexed, ranges;
    struct dwp *package;
    struct dwo dwo;               /* of the current unit, if libdw cannot read it */
    struct split_addresses split; /* of the current unit, if it is in either */
    struct line_table lines;
    struct scope_scanner scanner;
    size_t damaged_units, missing_units;
    char *missing_name;

    /* Of the current unit. */
    struct unit_address *found;
    bool *taken; /* by address: an earlier unit has it */
    size_t found_count, found_capacity;
    uint64_t *addresses;
    struct line_row *rows;
    uint32_t *innermost;
    size_t addresses_capacity, rows_capacity, innermost_capacity;
    struct function_entry *functions; /* by scope */
    size_t functions_capacity;
    const char *directory;
    char **paths; /* by file index, filled on demand */
    size_t path_count, path_capacity;
};

/* --- opening --- */

static struct dwarf_bytes section_bytes(Elf *elf, const char *wanted)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return (struct dwarf_bytes){0};
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) == NULL ? NULL : elf_strptr(elf, names, header.sh_name);
        /* ".debug_line", or ".zdebug_line", which libdw has decompressed already. */
        if (name == NULL || header.sh_type == SHT_NOBITS || name[0] != '.' ||
            strcmp(name + (name[1] == 'z' ? 2 : 1), wanted) != 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        if (data == NULL || data->d_buf == NULL)
            continue;
        return (struct dwarf_bytes){data->d_buf, (const uint8_t *)data->d_buf + data->d_size};
    }
    return (struct dwarf_bytes){0};
}

static int open_parts(struct debug_info *info, const char *path, struct error *error)
{
    int result = elf_source_open(&info->source, path, true);
    if (result < 0)
        return error_set(error, result, "%s: cannot be opened: %s", path, strerror(-result));
    Elf *elf = info->source.elf;
    const char *identity = elf == NULL ? NULL : elf_getident(elf, NULL);
    if (identity == NULL || elf_kind(elf) != ELF_K_ELF)
        return error_set(error, -ENOEXEC, "%s: not an ELF file", path);
    if (identity[EI_DATA] != ELFDATA2LSB)
        return error_set(error, -ENOENT, "%s: has the other byte order", path);
    int unpacked = elf_source_unpack(&info->source);
    if (unpacked < 0)
        return error_set(error, unpacked, "%s: its debug sections %s", path,
                         unpacked == -ENOTSUP  ? "are compressed by a method that is not known"
                         : unpacked == -ENOMEM ? "are too large for the memory"
                                               : "cannot be decompressed: they are damaged");
    info->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    if (info->dwarf == NULL)
        return error_set(error, -ENOENT, "%s: no debug information: %s", path, dwarf_errmsg(-1));
    if (!linked_files_have_safe_alternate(info->dwarf, info->source.fd))
        return error_set(error, -EINVAL, "%s: its alternate file is not a regular file", path);
    supplementary_open(&info->supplementary, elf, path);
    if (info->supplementary.dwarf == NULL)
        supplementary_open_alternate(&info->supplementary, info->dwarf, info->source.fd);
    if (info->supplementary.dwarf != NULL)
        dwarf_setalt(info->dwarf, info->supplementary.dwarf);
    if (info->supplementary.dwarf != NULL && !info->supplementary.is_alternate) {
        info->entry_reader.supplementary = info->supplementary.dwarf;
        info->entry_reader.supplementary_strings =
            section_bytes(info->supplementary.source.elf, "debug_str");
    }
    info->entry_reader.entries = section_bytes(elf, "debug_info");
    info->line_sections.line = section_bytes(elf, "debug_line");
    info->line_sections.line_str = section_bytes(elf, "debug_line_str");
    info->line_sections.str = section_bytes(elf, "debug_str");
    info->abbreviations = section_bytes(elf, "debug_abbrev");
    info->indexed = section_bytes(elf, "debug_addr");
    info->ranges = section_bytes(elf, "debug_ranges");
    return 0;
}

struct debug_info *debug_info_open(const char *path, struct error *error)
{
    struct debug_info *info = calloc(1, sizeof(*info));
    if (info == NULL) {
        error_set(error, -ENOMEM, "%s: no memory for its debug information", path);
        return NULL;
    }
    info->scanner.work_left = WORK_MAX;
    info->source.fd = info->supplementary.source.fd = info->dwo.source.fd = -1;
    if (open_parts(info, path, error) < 0) {
        debug_info_close(info);
        return NULL;
    }
    return info;
}

void debug_info_use_package(struct debug_info *info, const char *path)
{
    if (info->package == NULL)
        info->package = dwp_open(path);
}

static void forget_paths(struct debug_info *info)
{
    for (size_t i = 0; i < info->path_count; i++)
        free(info->paths[i]);
    info->path_count = 0;
}

void debug_info_close(struct debug_info *info)
{
    if (info == NULL)
        return;
    forget_paths(info);
    free(info->paths);
    free(info->found);
    free(info->taken);
    free(info->addresses);
    free(info->rows);
    free(info->innermost);
    free(info->functions);
    free(info->missing_name);
    scopes_clear(&info->scanner);
    line_table_clear(&info->lines);
    dwp_close(info->package);
    dwo_close(&info->dwo);
    dwarf_end(info->dwarf);
    supplementary_close(&info->supplementary);
    elf_source_close(&info->source);
    free(info);
}

size_t debug_info_damaged_units(const struct debug_info *info)
{
    return info->damaged_units;
}

bool debug_info_is_whole(struct debug_info *info)
{
    Elf *elf = info->source.elf;
    struct dwarf_bytes alternate = section_bytes(elf, "gnu_debugaltlink");
    struct dwarf_bytes supplementary = section_bytes(elf, "debug_sup");
    return info->damaged_units == 0 && info->missing_units == 0 &&
           (alternate.at == NULL || dwarf_getalt(info->dwarf) != NULL) &&
           (supplementary.at == NULL || info->supplementary.dwarf != NULL);
}

size_t debug_info_missing_units(const struct debug_info *info, const char **name)
{
    *name = info->missing_name;
    return info->missing_units;
}

/* --- frames of one address --- */

/* Return the path of a file of the unit, valid until the next unit, or NULL. */
static const char *path_of(struct debug_info *info, uint32_t file)
{
    if (file >= info->lines.file_count)
        return NULL;
    if (file >= info->path_count) {
        size_t used = info->path_count;
        if (ARRAY_RESERVE(&info->paths, &info->path_capacity, used, file + 1 - used) < 0)
            return NULL;
        memset(&info->paths[used], 0, (file + 1 - used) * sizeof(*info->paths));
        info->path_count = file + 1;
    }
    if (info->paths[file] == NULL)
        info->paths[file] = line_table_path(&info->lines, file, info->directory);
    return info->paths[file];
}

/* Fill `frames` for an address, innermost first. The innermost frame's file and line come from the
 * line row, those of each outer frame from the call of the function inlined into it. Return how
 * many frames there are. */
static size_t make_frames(struct debug_info *info, struct line_row row, uint32_t scope,
                          struct source_frame frames[SOURCE_FRAMES_MAX])
{
    size_t count = 0;
    frames[0] = (struct source_frame){.file = path_of(info, row.file), .line = row.line};
    while (scope != SCOPE_NONE && count < SOURCE_FRAMES_MAX) {
        struct function_entry *function = &info->functions[scope];
        if (!function->known)
            function_entry_read(&info->entry_reader, &info->scanner.scopes[scope].die, function);
        frames[count++].function = function->function;
        scope = info->scanner.scopes[scope].parent;
        if (scope == SCOPE_NONE || count == SOURCE_FRAMES_MAX)
            break;
        frames[count] = (struct source_frame){.file = path_of(info, function->call_file),
                                              .line = function->call_line};
    }
    return count > 0 ? count : 1;
}

/* --- units --- */

static int compare_found(const void *a, const void *b)
{
    uint64_t left = ((const struct unit_address *)a)->address;
    uint64_t right = ((const struct unit_address *)b)->address;
    return (left > right) - (left < right);
}

/* Collect the addresses that the unit's ranges contain and that no earlier unit has. Return 0 or a
 * negative errno. */
static int debug_info_gather(struct debug_info *info, Dwarf_Die *unit, const uint64_t *addresses,
                             size_t count)
{
    Dwarf_Addr base = 0, low, high;
    ptrdiff_t offset = 0;
    info->found_count = 0;
    while ((offset = dwarf_ranges(unit, offset, &base, &low, &high)) > 0) {
        if (info->scanner.work_left == 0)
            return -E2BIG;
        info->scanner.work_left--;
        size_t at = SORTED_SEARCH(count, i, addresses[i] < low);
        for (; at < count && addresses[at] < high; at++) {
            if (info->scanner.work_left-- == 1)
                return -E2BIG;
            if (info->taken[at])
                continue;
            if (ARRAY_RESERVE(&info->found, &info->found_capacity, info->found_count, 1) < 0)
                return -ENOMEM;
            info->taken[at] = true;
            info->found[info->found_count++] = (struct unit_address){addresses[at], at};
        }
    }
    if (info->found_count > 1)
        qsort(info->found, info->found_count, sizeof(*info->found), compare_found);
    return 0;
}

static int reserve_answers(struct debug_info *info)
{
    size_t count = info->found_count;
    if (ARRAY_RESERVE(&info->addresses, &info->addresses_capacity, 0, count) < 0 ||
        ARRAY_RESERVE(&info->rows, &info->rows_capacity, 0, count) < 0 ||
        ARRAY_RESERVE(&info->innermost, &info->innermost_capacity, 0, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        info->addresses[i] = info->found[i].address;
        info->rows[i] = (struct line_row){.file = LINE_NO_FILE};
        info->innermost[i] = SCOPE_NONE;
    }
    return 0;
}

static void set_abbreviations(struct scope_unit *unit, struct dwarf_bytes section)
{
    unit->abbreviations_begin = section.at;
    unit->abbreviations_end = section.end;
}

/* Read the header of the unit at an offset: all of *unit but its entry and its tables. Return the
 * bytes of the header, and set *next to the offset of the next unit; 0: no more. */
static size_t read_header(Dwarf *dwarf, Dwarf_Off offset, struct scope_unit *unit, Dwarf_Off *next)
{
    size_t bytes;
    Dwarf_Half version;
    uint8_t address_bytes, offset_bytes;
    if (dwarf_next_unit(dwarf, offset, next, &bytes, &version, &unit->abbreviations, &address_bytes,
                        &offset_bytes, NULL, NULL) != 0)
        return 0;
    unit->offset = offset;
    unit->end = *next;
    unit->version = version;
    unit->address_bytes = address_bytes;
    unit->offset_bytes = offset_bytes;
    return bytes;
}

/* Find the header of an entry's unit. (A split unit's header is in its own file.) */
static bool find_unit(Dwarf_Die *die, struct scope_unit *unit)
{
    Dwarf *dwarf = dwarf_cu_getdwarf(die->cu);
    Dwarf_Off wanted = dwarf_dieoffset(die);
    for (Dwarf_Off offset = 0, next; read_header(dwarf, offset, unit, &next) > 0; offset = next) {
        if (wanted >= offset && wanted < next) {
            unit->die = *die;
            return true;
        }
    }
    return false;
}

/* Return the part of a section from an offset on. */
static struct dwarf_bytes bytes_from(struct dwarf_bytes section, uint64_t offset)
{
    if (section.at == NULL || offset > (uint64_t)(section.end - section.at))
        return (struct dwarf_bytes){0};
    return (struct dwarf_bytes){section.at + offset, section.end};
}

static uint64_t base_of(Dwarf_Die *skeleton, unsigned name, uint64_t otherwise)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_formudata(dwarf_attr(skeleton, name, &attribute), &value) == 0 ? value : otherwise;
}

/* Turn *unit, a skeleton, into the split unit, whose addresses libdw cannot read. */
static bool use_split(struct debug_info *info, struct scope_unit *unit, struct dwp_unit *packed)
{
    struct split_addresses *split = &info->split;
    Dwarf_Die skeleton = unit->die;
    *split = (struct split_addresses){.version = unit->version};
    if (dwarf_lowpc(&skeleton, &split->base) != 0)
        split->base = 0;
    if (unit->version >= 5) {
        split->addresses = bytes_from(info->indexed, base_of(&skeleton, DW_AT_addr_base, 8));
        split->ranges = packed->range_lists;
    } else {
        split->addresses = bytes_from(info->indexed, base_of(&skeleton, DW_AT_GNU_addr_base, 0));
        split->ranges = bytes_from(info->ranges, base_of(&skeleton, DW_AT_GNU_ranges_base, 0));
    }
    if (!find_unit(&packed->die, unit))
        return false;
    const uint8_t *entries = unit->die.addr;
    split->entries_end = entries + (unit->end - dwarf_dieoffset(&unit->die));
    split->address_bytes = unit->address_bytes;
    split->offset_bytes = unit->offset_bytes;
    unit->split = split;
    set_abbreviations(unit, packed->abbreviations);
    return true;
}

/* Turn *unit into the unit of this id in the package. Return false if it is not there. */
static bool find_in_package(struct debug_info *info, struct scope_unit *unit, uint64_t id)
{
    struct dwp_unit packed;
    return info->package != NULL && dwp_find(info->package, id, &packed) == 0 &&
           use_split(info, unit, &packed);
}

/* The same in a .dwo file that libdw cannot read. */
static bool find_in_dwo(struct debug_info *info, struct scope_unit *unit, const char *directory,
                        const char *name, uint64_t id)
{
    struct dwp_unit unpacked;
    if (!dwo_find(&info->dwo, info->source.fd, directory, name, id, &unpacked.die))
        return false;
    unpacked.abbreviations = section_bytes(info->dwo.source.elf, "debug_abbrev.dwo");
    unpacked.range_lists = section_bytes(info->dwo.source.elf, "debug_rnglists.dwo");
    return use_split(info, unit, &unpacked);
}

/* Find the entries of a unit's functions: in the unit itself, in a package, or in a .dwo file. */
static bool find_entries(struct debug_info *info, struct scope_unit *unit)
{
    Dwarf_Half version;
    uint8_t type;
    Dwarf_Die whole, split;
    uint64_t id;
    if (dwarf_cu_info(unit->die.cu, &version, &type, NULL, NULL, &id, NULL, NULL) != 0 ||
        type != DW_UT_skeleton)
        return true;
    if (find_in_package(info, unit, id))
        return true;
    const char *name = entry_string(&info->entry_reader, &unit->die, DW_AT_dwo_name);
    if (name == NULL)
        name = entry_string(&info->entry_reader, &unit->die, DW_AT_GNU_dwo_name);
    const char *directory = entry_string(&info->entry_reader, &unit->die, DW_AT_comp_dir);
    bool is_safe = name != NULL && linked_files_have_safe_split(info->source.fd, directory, name);
    if (is_safe &&
        dwarf_cu_info(unit->die.cu, &version, &type, &whole, &split, NULL, NULL, NULL) == 0 &&
        split.addr != NULL && find_unit(&split, unit)) {
        Elf *elf = dwarf_getelf(dwarf_cu_getdwarf(split.cu));
        set_abbreviations(unit, section_bytes(elf, "debug_abbrev.dwo"));
        return true;
    }
    if (is_safe && find_in_dwo(info, unit, directory, name, id))
        return true;
    if (info->missing_units++ == 0)
        info->missing_name = strdup(name != NULL ? name : "?");
    return false;
}

static void read_lines(struct debug_info *info, const struct scope_unit *unit)
{
    Dwarf_Die die = unit->die;
    Dwarf_Attribute attribute;
    Dwarf_Word offset;
    forget_paths(info);
    info->lines.file_count = 0;
    info->directory = entry_string(&info->entry_reader, &die, DW_AT_comp_dir);
    if (dwarf_formudata(dwarf_attr(&die, DW_AT_stmt_list, &attribute), &offset) != 0)
        return;
    if (line_table_read(&info->lines, &info->line_sections, offset, unit->address_bytes) < 0) {
        info->lines.file_count = 0;
        info->damaged_units++;
        return;
    }
    line_table_find(&info->lines, info->addresses, info->found_count, info->rows);
}

static int take_unit(struct debug_info *info, struct scope_unit *unit, debug_info_sink *sink,
                     void *context)
{
    struct source_frame frames[SOURCE_FRAMES_MAX];
    int result = reserve_answers(info);
    if (result < 0)
        return result;
    read_lines(info, unit);
    if (find_entries(info, unit)) {
        result =
            scopes_find(&info->scanner, unit, info->addresses, info->found_count, info->innermost);
        info->damaged_units += result == -EBADMSG;
        if (result == -ENOMEM)
            return result;
    }
    result = ARRAY_RESERVE(&info->functions, &info->functions_capacity, 0, info->scanner.count);
    if (info->scanner.count > 0 && result == 0)
        memset(info->functions, 0, info->scanner.count * sizeof(*info->functions));
    for (size_t i = 0; i < info->found_count && result >= 0; i++) {
        size_t count = make_frames(info, info->rows[i], info->innermost[i], frames);
        result = sink(context, info->found[i].index, frames, count);
    }
    return result < 0 ? result : 0;
}

int debug_info_find(struct debug_info *info, const uint64_t *addresses, size_t count,
                    debug_info_sink *sink, void *context)
{
    Dwarf_Off offset = 0, next;
    size_t header;
    struct scope_unit unit = {0};
    int result = 0;
    free(info->taken);
    info->taken = calloc(count + 1, sizeof(*info->taken));
    if (info->taken == NULL)
        return -ENOMEM;
    while (result == 0 && (header = read_header(info->dwarf, offset, &unit, &next)) > 0) {
        unit.split = NULL;
        info->entry_reader.offset_bytes = unit.offset_bytes;
        set_abbreviations(&unit, info->abbreviations);
        if (dwarf_offdie(info->dwarf, offset + header, &unit.die) == NULL) {
            info->damaged_units++;
        } else if (dwarf_tag(&unit.die) != DW_TAG_partial_unit) {
            result = debug_info_gather(info, &unit.die, addresses, count);
            if (result == 0 && info->found_count > 0)
                result = take_unit(info, &unit, sink, context);
        }
        offset = next;
    }
    /* -E2BIG: the work limit is reached, so the file was made to waste time. Keep what was found.
     */
    return result == -E2BIG ? 0 : result;
}
