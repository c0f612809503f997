/* SPDX-License-Identifier: Apache-2.0 */
/* Summary of an ELF file: its ids, sections and segments, without reading it as a whole. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_ELF_IMAGE_H
#define HEAPPROFD_PROFILE_SYMBOLS_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_IMAGE_BUILD_ID_MAX 64
#define ELF_IMAGE_NAME_MAX 256
#define ELF_IMAGE_SEGMENTS_MAX 16

struct elf_image {
    uint8_t build_id[ELF_IMAGE_BUILD_ID_MAX];
    size_t build_id_length; /* 0: none */
    bool has_dwarf, has_symtab, has_dynsym, has_debugdata;
    bool has_code;                       /* false: it only describes code, as a debug file does */
    char debug_link[ELF_IMAGE_NAME_MAX]; /* .gnu_debuglink, or "" */
    uint32_t debug_link_checksum;
    struct elf_segment {
        uint64_t start, end;
        uint64_t offset; /* of its first byte in the file; meaningless in a debug file */
    } code[ELF_IMAGE_SEGMENTS_MAX];
    size_t code_count;
    uint64_t load_bias; /* of the first executable segment; 0 unless has_code */
    uint64_t base;      /* address of the file's first loaded byte; 0 in most libraries */
    bool is_fixed;      /* it can only be loaded at its own addresses */
};

/* Read the summary. Return 0; -ENOENT: no such file; -ENOEXEC: neither a program nor a library nor
 * a debug file; or the negative errno of opening it. */
int elf_image_read(const char *path, struct elf_image *image);

/* Return the amount to add to offsets in the file for addresses in it, where it is mapped from
 * `offset` on at addresses from `start` to `end`: an address at `start` + x is `offset` + x +
 * *bias. The mapping is one of a segment of code, or of the whole module. Return false if it is
 * neither, or could be of several segments at different distances. */
bool elf_image_find_bias(const struct elf_image *image, uint64_t start, uint64_t end,
                         uint64_t offset, uint64_t *bias);
/* Return whether the file has code at an address. */
bool elf_image_has_code_at(const struct elf_image *image, uint64_t address);

/* Return whether the file's bytes have this CRC32, as .gnu_debuglink defines it. */
bool elf_image_has_checksum(const char *path, uint32_t checksum);
/* The same for an open file. A file of more than `bytes_max` has not. */
bool elf_image_fd_has_checksum(int fd, int64_t bytes_max, uint32_t checksum);

#endif
