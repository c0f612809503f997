/* SPDX-License-Identifier: Apache-2.0 */
/* Read and name the machine of an ELF file. */
#include "util/elf_machine.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#define OWN_NUMBER EM_X86_64
const char elf_machine_own[] = "64-bit x86";
#elif defined(__aarch64__)
#define OWN_NUMBER EM_AARCH64
const char elf_machine_own[] = "64-bit ARM";
#else
#error "which machine is this?"
#endif

#ifndef EM_LOONGARCH
#define EM_LOONGARCH 258
#endif

static const struct {
    uint16_t number;
    const char *name;
} names[] = {
    {EM_386, "x86 (i386)"}, {EM_X86_64, "x86"},          {EM_ARM, "ARM"},
    {EM_AARCH64, "ARM"},    {EM_RISCV, "RISC-V"},        {EM_S390, "s390"},
    {EM_PPC, "PowerPC"},    {EM_PPC64, "PowerPC"},       {EM_MIPS, "MIPS"},
    {EM_SPARCV9, "SPARC"},  {EM_LOONGARCH, "LoongArch"},
};

int elf_machine_read(struct elf_machine *machine, const void *head, size_t bytes)
{
    const uint8_t *at = head;
    if (bytes < ELF_MACHINE_HEAD_BYTES || memcmp(at, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    machine->is_32_bit = at[EI_CLASS] != ELFCLASS64;
    machine->is_big_endian = at[EI_DATA] == ELFDATA2MSB;
    at += offsetof(Elf64_Ehdr, e_machine);
    machine->number = (uint16_t)(machine->is_big_endian ? at[0] << 8 | at[1] : at[1] << 8 | at[0]);
    return 0;
}

bool elf_machine_is_own(const struct elf_machine *machine)
{
    return machine->number == OWN_NUMBER && !machine->is_32_bit && !machine->is_big_endian;
}

void elf_machine_name(const struct elf_machine *machine, char text[ELF_MACHINE_NAME_BYTES])
{
    if (machine->number == EM_NONE || (machine->number == EM_X86_64 && machine->is_32_bit)) {
        snprintf(text, ELF_MACHINE_NAME_BYTES, "%s",
                 machine->number == EM_NONE ? "another machine" : "x32");
        return;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].number == machine->number) {
            snprintf(text, ELF_MACHINE_NAME_BYTES, "%s-bit %s%s", machine->is_32_bit ? "32" : "64",
                     names[i].name, machine->is_big_endian ? ", big-endian" : "");
            return;
        }
    }
    snprintf(text, ELF_MACHINE_NAME_BYTES, "ELF machine %u", machine->number);
}
