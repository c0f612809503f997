/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections that are compressed as ELF defines it (SHF_COMPRESSED): with zlib or with zstd. elfutils
 * knows zstd from 0.189 on, if it was built so. Otherwise libdw leaves such sections out without a
 * word.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_PACKED_SECTION_H
#define HEAPPROFD_PROFILE_SYMBOLS_PACKED_SECTION_H

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A compressed section. Its bytes belong to the Elf. */
struct packed_section {
    uint32_t method; /* ELFCOMPRESS_ZLIB, PACKED_SECTION_ZSTD or an unknown one */
    uint64_t alignment;
    const uint8_t *packed;
    size_t packed_bytes, bytes; /* `bytes`: when unpacked */
};

#define PACKED_SECTION_ZSTD 2u /* ELFCOMPRESS_ZSTD, which older headers lack */

/* Read the header of a compressed section. Return false if it is not one, is damaged, or claims
 * more bytes than `bytes_max`, or than can be in its packed ones. */
bool packed_section_read(Elf *elf, Elf_Scn *section, size_t bytes_max,
                         struct packed_section *packed);

/* Unpack the section into memory of packed->bytes. Return 0; -ENOTSUP: an unknown method; or
 * -EBADMSG: damaged. */
int packed_section_unpack(const struct packed_section *packed, void *to);

/* The debug sections of a file that were unpacked for libdw. */
struct unpacked_sections {
    void *buffers[64];
    size_t count, bytes;
};

/* Unpack the debug sections that libdw cannot, so that it finds them like any others. `elf`: opened
 * by elf_begin(), or from memory that may be written to. The buffers must live as long as it.
 * Return 0; or -ENOTSUP, -EBADMSG or -ENOMEM if a section stays packed for that reason. */
int unpacked_sections_make(struct unpacked_sections *unpacked, Elf *elf);
void unpacked_sections_free(struct unpacked_sections *unpacked);

#endif
