/* SPDX-License-Identifier: Apache-2.0 */
/* .gnu_debugdata: the ELF file, packed with xz, that a stripped file contains for its symbols. */
#ifndef HEAPPROFD_SYMBOLS_DEBUGDATA_H
#define HEAPPROFD_SYMBOLS_DEBUGDATA_H

#include <libelf.h>
#include <stddef.h>

/* Return the unpacked section, malloc'd. NULL: there is none, it is damaged or too big, or no
 * memory. */
void *debugdata_unpack(Elf *elf, size_t *size);

#endif
