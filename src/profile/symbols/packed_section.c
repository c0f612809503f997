/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpack sections, within bounds: files are untrusted.
 *
 * libdw reads an unpacked section through what libelf keeps of it in memory, its header and its
 * data. A caller of libelf may change both.
 */
#include "profile/symbols/packed_section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Unpacked bytes for each packed one: the most that deflate can have, and libelf's limit for it.
 * Real sections have ten. zstd could have any number. */
#define RATIO_MAX 1032u
/* Of a file's sections. The largest browsers have 5 GB of debug information. */
#define UNPACKED_BYTES_MAX ((size_t)16 << 30)

bool packed_section_read(Elf *elf, Elf_Scn *section, size_t bytes_max,
                         struct packed_section *packed)
{
    GElf_Shdr header;
    GElf_Chdr own;
    if (gelf_getshdr(section, &header) == NULL || (header.sh_flags & SHF_COMPRESSED) == 0 ||
        header.sh_type == SHT_NOBITS)
        return false;
    Elf_Data *data = elf_rawdata(section, NULL);
    size_t own_bytes = gelf_getclass(elf) == ELFCLASS32 ? sizeof(Elf32_Chdr) : sizeof(Elf64_Chdr);
    if (data == NULL || data->d_buf == NULL || data->d_size <= own_bytes ||
        gelf_getchdr(section, &own) == NULL)
        return false;
    *packed = (struct packed_section){
        .method = own.ch_type,
        .alignment = own.ch_addralign,
        .packed = (const uint8_t *)data->d_buf + own_bytes,
        .packed_bytes = data->d_size - own_bytes,
        .bytes = own.ch_size,
    };
    return own.ch_size > 0 && own.ch_size <= bytes_max &&
           own.ch_size / RATIO_MAX <= packed->packed_bytes;
}

static int unpack_zlib(const struct packed_section *packed, void *to)
{
    uLongf bytes = packed->bytes;
    return uncompress(to, &bytes, packed->packed, packed->packed_bytes) == Z_OK &&
                   bytes == packed->bytes
               ? 0
               : -EBADMSG;
}

static int unpack_zstd(const struct packed_section *packed, void *to)
{
    size_t bytes = ZSTD_decompress(to, packed->bytes, packed->packed, packed->packed_bytes);
    return !ZSTD_isError(bytes) && bytes == packed->bytes ? 0 : -EBADMSG;
}

int packed_section_unpack(const struct packed_section *packed, void *to)
{
    switch (packed->method) {
    case ELFCOMPRESS_ZLIB:
        return unpack_zlib(packed, to);
    case PACKED_SECTION_ZSTD:
        return unpack_zstd(packed, to);
    default:
        return -ENOTSUP;
    }
}

/* --- for libdw --- */

/* Let libelf show the unpacked bytes as the section. Both forms of its data are asked for first:
 * libelf makes one of the other. */
static int replace(Elf_Scn *section, const struct packed_section *packed, void *bytes)
{
    GElf_Shdr header;
    Elf_Data *raw = elf_rawdata(section, NULL), *data = elf_getdata(section, NULL);
    if (raw == NULL || data == NULL || gelf_getshdr(section, &header) == NULL)
        return -EBADMSG;
    header.sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
    header.sh_size = packed->bytes;
    header.sh_addralign = packed->alignment;
    if (gelf_update_shdr(section, &header) == 0)
        return -EBADMSG;
    Elf_Data *const both[] = {raw, data};
    for (size_t i = 0; i < 2; i++) {
        both[i]->d_buf = bytes;
        both[i]->d_type = ELF_T_BYTE;
        both[i]->d_size = packed->bytes;
        both[i]->d_align = packed->alignment;
    }
    return 0;
}

static int unpack_for_libdw(struct unpacked_sections *unpacked, Elf *elf, Elf_Scn *section)
{
    struct packed_section packed;
    if (unpacked->count == sizeof(unpacked->buffers) / sizeof(unpacked->buffers[0]) ||
        !packed_section_read(elf, section, UNPACKED_BYTES_MAX - unpacked->bytes, &packed))
        return -EBADMSG;
    void *bytes = malloc(packed.bytes);
    if (bytes == NULL)
        return -ENOMEM;
    int code = packed_section_unpack(&packed, bytes);
    if (code == 0)
        code = replace(section, &packed, bytes);
    if (code < 0) {
        free(bytes);
        return code;
    }
    unpacked->buffers[unpacked->count++] = bytes;
    unpacked->bytes += packed.bytes;
    return 0;
}

/* Return whether libdw wants the section, and cannot read it. */
static bool is_for_us(Elf *elf, Elf_Scn *section, size_t names)
{
    GElf_Shdr header;
    GElf_Chdr packed;
    if (gelf_getshdr(section, &header) == NULL || (header.sh_flags & SHF_COMPRESSED) == 0 ||
        header.sh_type == SHT_NOBITS)
        return false;
    const char *name = elf_strptr(elf, names, header.sh_name);
    return name != NULL && strncmp(name, ".debug_", strlen(".debug_")) == 0 &&
           gelf_getchdr(section, &packed) != NULL && packed.ch_type != ELFCOMPRESS_ZLIB;
}

int unpacked_sections_make(struct unpacked_sections *unpacked, Elf *elf)
{
    size_t names;
    Elf_Scn *section = NULL;
    int result = 0;
    if (elf_kind(elf) != ELF_K_ELF || elf_getshdrstrndx(elf, &names) != 0)
        return 0;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        int code = is_for_us(elf, section, names) ? unpack_for_libdw(unpacked, elf, section) : 0;
        result = result == 0 ? code : result;
    }
    return result;
}

void unpacked_sections_free(struct unpacked_sections *unpacked)
{
    for (size_t i = 0; i < unpacked->count; i++)
        free(unpacked->buffers[i]);
    *unpacked = (struct unpacked_sections){0};
}
