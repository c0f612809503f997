/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open the supplementary file of a program. Both files have the section .debug_sup: the program's
 * contains the other file's name, and both contain the same checksum. The file is searched by its
 * name, beside the program, and in Debian's directory for such files.
 */
#include "profile/symbols/supplementary.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "profile/symbols/linked_files.h"

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

void supplementary_open(struct supplementary *supplementary, Elf *program, const char *path)
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

void supplementary_open_alternate(struct supplementary *supplementary, Dwarf *program, int fd)
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

void supplementary_close(struct supplementary *supplementary)
{
    dwarf_end(supplementary->dwarf);
    supplementary->dwarf = NULL;
    elf_source_close(&supplementary->source);
}
