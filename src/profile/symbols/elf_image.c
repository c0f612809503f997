/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read headers, notes and section names, but no sections: this runs for every file of a directory.
 * libelf checks what it returns.
 */
#include "profile/symbols/elf_image.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "profile/symbols/elf_source.h"

/* A larger file takes too long to checksum: it may be sparse, of any size. */
#define CHECKSUM_FILE_BYTES_MAX (INT64_C(8) << 30)

#define PAGE_BYTES 4096u

static void read_segments(Elf *elf, struct elf_image *image)
{
    size_t count = 0;
    bool has_base = false;
    if (elf_getphdrnum(elf, &count) != 0)
        return;
    for (size_t i = 0; i < count && i < UINT16_MAX; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf, (int)i, &header) == NULL || header.p_type != PT_LOAD)
            continue;
        if (!has_base) /* segments are sorted by address */
            image->base = header.p_vaddr - header.p_vaddr % PAGE_BYTES;
        has_base = true;
        if ((header.p_flags & PF_X) == 0 || image->code_count == ELF_IMAGE_SEGMENTS_MAX)
            continue;
        struct elf_segment *segment = &image->code[image->code_count];
        segment->start = header.p_vaddr;
        segment->offset = header.p_offset;
        if (__builtin_add_overflow(header.p_vaddr, header.p_memsz, &segment->end))
            continue;
        if (image->code_count++ == 0)
            image->load_bias = header.p_vaddr - header.p_offset;
    }
}

static void read_sections(Elf *elf, struct elf_image *image)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type == SHT_NOBITS ||
            header.sh_size == 0)
            continue;
        image->has_symtab |= header.sh_type == SHT_SYMTAB;
        image->has_dynsym |= header.sh_type == SHT_DYNSYM;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name == NULL)
            continue;
        image->has_dwarf |= strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0;
        image->has_debugdata |= strcmp(name, ".gnu_debugdata") == 0;
        image->has_code |= (header.sh_flags & SHF_EXECINSTR) != 0;
    }
}

static void read_names(Elf *elf, struct elf_image *image)
{
    const void *build_id;
    GElf_Word checksum;
    ssize_t length = dwelf_elf_gnu_build_id(elf, &build_id);
    if (length > 0 && length <= ELF_IMAGE_BUILD_ID_MAX) {
        memcpy(image->build_id, build_id, (size_t)length);
        image->build_id_length = (size_t)length;
    }
    const char *link = dwelf_elf_gnu_debuglink(elf, &checksum);
    /* It names a file in the same directory. A path could lead anywhere. */
    if (link != NULL && strlen(link) < sizeof(image->debug_link) && strchr(link, '/') == NULL) {
        strcpy(image->debug_link, link);
        image->debug_link_checksum = checksum;
    }
}

int elf_image_read(const char *path, struct elf_image *image)
{
    struct elf_source source;
    GElf_Ehdr header;
    memset(image, 0, sizeof(*image));
    int result = elf_source_open(&source, path, false);
    Elf *elf = source.elf;
    if (result == 0)
        result = -ENOEXEC;
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) != NULL &&
        (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
        image->is_fixed = header.e_type == ET_EXEC;
        read_segments(elf, image);
        read_sections(elf, image);
        read_names(elf, image);
        if (!image->has_code)
            image->load_bias = 0;
        result = 0;
    }
    elf_source_close(&source);
    return result;
}

static uint64_t page_of(uint64_t address)
{
    return address - address % PAGE_BYTES;
}

/* How well a mapping fits a segment. */
enum fit { FIT_NOT, FIT_BEGINS, FIT_INSIDE, FIT_WHOLE };

/* Set *bias if the mapping has to do with the segment. */
static enum fit fit_of(const struct elf_image *image, const struct elf_segment *segment,
                       uint64_t start, uint64_t end, uint64_t offset, uint64_t *bias)
{
    uint64_t first = page_of(segment->start), size = page_of(end + PAGE_BYTES - 1) - page_of(start);
    uint64_t segment_size = page_of(segment->end + PAGE_BYTES - 1) - first;
    /* Offsets in a debug file mean nothing. */
    if (!image->has_code) {
        *bias = first - page_of(offset);
        return size == segment_size ? FIT_WHOLE : FIT_NOT;
    }
    *bias = segment->start - segment->offset;
    uint64_t within = page_of(offset) - (first - *bias);
    if (within >= segment_size)
        return FIT_NOT;
    if (size > segment_size - within)
        return within == 0 ? FIT_BEGINS : FIT_NOT;
    return size == segment_size ? FIT_WHOLE : FIT_INSIDE;
}

bool elf_image_find_bias(const struct elf_image *image, uint64_t start, uint64_t end,
                         uint64_t offset, uint64_t *bias)
{
    enum fit best = FIT_NOT;
    bool is_unique = false;
    if (end <= start)
        return false;
    for (size_t i = 0; i < image->code_count; i++) {
        uint64_t of_segment;
        enum fit fit = fit_of(image, &image->code[i], start, end, offset, &of_segment);
        if (fit > best || (fit == best && fit != FIT_NOT && of_segment != *bias)) {
            is_unique = fit > best;
            best = fit;
            *bias = of_segment;
        }
    }
    /* It is longer than the segment: the module's segments follow each other in memory. */
    if (best <= FIT_BEGINS && page_of(offset) == 0) {
        *bias = image->base;
        return true;
    }
    return is_unique;
}

bool elf_image_has_code_at(const struct elf_image *image, uint64_t address)
{
    for (size_t i = 0; i < image->code_count; i++)
        if (address >= image->code[i].start && address < image->code[i].end)
            return true;
    return false;
}

bool elf_image_fd_has_checksum(int fd, int64_t bytes_max, uint32_t checksum)
{
    unsigned char buffer[65536];
    uLong sum = crc32(0, NULL, 0);
    off_t at = 0;
    ssize_t length = -1;
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size > bytes_max)
        return false;
    /* The file may grow meanwhile. */
    while (at <= bytes_max && (length = pread(fd, buffer, sizeof(buffer), at)) > 0) {
        sum = crc32(sum, buffer, (uInt)length);
        at += length;
    }
    return length == 0 && sum == checksum;
}

bool elf_image_has_checksum(const char *path, uint32_t checksum)
{
    struct elf_source source;
    bool has_checksum = elf_source_open(&source, path, false) == 0 && source.map == NULL &&
                        source.fd >= 0 &&
                        elf_image_fd_has_checksum(source.fd, CHECKSUM_FILE_BYTES_MAX, checksum);
    elf_source_close(&source);
    return has_checksum;
}
