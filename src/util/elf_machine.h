/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that an ELF file is for, from the first bytes of the file, in either byte order. */
#ifndef HEAPPROFD_UTIL_ELF_MACHINE_H
#define HEAPPROFD_UTIL_ELF_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a file that elf_machine_read() needs. */
#define ELF_MACHINE_HEAD_BYTES 20

struct elf_machine {
    uint16_t number; /* e_machine */
    uint8_t is_32_bit, is_big_endian;
};

/* Read the machine from the beginning of a file. Return 0, or -ENOEXEC if it is not an ELF file. */
int elf_machine_read(struct elf_machine *machine, const void *head, size_t bytes);

/* Return whether programs for that machine can be profiled: it is the one this code runs on. */
bool elf_machine_is_own(const struct elf_machine *machine);

#define ELF_MACHINE_NAME_BYTES 32

/* Write the machine's name, such as "32-bit x86 (i386)". */
void elf_machine_name(const struct elf_machine *machine, char text[ELF_MACHINE_NAME_BYTES]);

/* Name of the machine this code runs on. */
extern const char elf_machine_own[];

#endif
