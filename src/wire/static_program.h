/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs run without a loader, by the headers of their files. The library cannot be
 * preloaded into them; the profiler attaches to them at their first instruction. It looks before it
 * starts its command; the client, before its process executes a program.
 */
#ifndef HEAPPROFD_WIRE_STATIC_PROGRAM_H
#define HEAPPROFD_WIRE_STATIC_PROGRAM_H

#include <elf.h>
#include <stdbool.h>

#define STATIC_PROGRAM_SEGMENTS_MAX 64

#if defined(__x86_64__)
#define STATIC_PROGRAM_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define STATIC_PROGRAM_MACHINE EM_AARCH64
#endif

/* Return whether this is the head of a program for this machine, with a sound number of segments.
 */
static inline bool static_program_head_is_sound(const Elf64_Ehdr *head)
{
    const unsigned char *ident = head->e_ident;
    return ident[EI_MAG0] == ELFMAG0 && ident[EI_MAG1] == ELFMAG1 && ident[EI_MAG2] == ELFMAG2 &&
           ident[EI_MAG3] == ELFMAG3 && ident[EI_CLASS] == ELFCLASS64 &&
           ident[EI_DATA] == ELFDATA2LSB && head->e_machine == STATIC_PROGRAM_MACHINE &&
           head->e_phentsize == sizeof(Elf64_Phdr) && head->e_phnum > 0 &&
           head->e_phnum <= STATIC_PROGRAM_SEGMENTS_MAX;
}

#endif
