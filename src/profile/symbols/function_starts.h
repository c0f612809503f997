/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where functions without symbols start: a stripped file still has an entry for each function in
 * its unwind table, .eh_frame, and a sorted index of their starts in .eh_frame_hdr (Linux Standard
 * Base Core Specification 5.0, section 10.6).
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_FUNCTION_STARTS_H
#define HEAPPROFD_PROFILE_SYMBOLS_FUNCTION_STARTS_H

#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct function_starts {
    Dwarf_CFI *unwind_table; /* NULL: the file has no index, or a damaged one */
    const uint8_t *rows;     /* of the index: start and entry, as int32_t from `base` */
    size_t count;
    uint64_t base; /* ELF virtual address of the index */
};

/* Read the index of a file, which stays open meanwhile. */
void function_starts_open(struct function_starts *starts, Elf *elf);
void function_starts_close(struct function_starts *starts);

/* Find the start of the function with the ELF virtual address. Return false if the unwind table has
 * no entry for it. */
bool function_starts_find(const struct function_starts *starts, uint64_t address, uint64_t *start);

#endif
