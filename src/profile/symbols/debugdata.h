/* SPDX-License-Identifier: Apache-2.0 */
/* .gnu_debugdata: the ELF file, packed with xz, that a stripped file contains for its symbols. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DEBUGDATA_H
#define HEAPPROFD_PROFILE_SYMBOLS_DEBUGDATA_H

#include <libelf.h>
#include <stddef.h>

/* The largest .gnu_debugdata of a distribution unpacks to a few MiB. */
#define DEBUGDATA_BYTES_MAX ((size_t)256 << 20)

/* Return the unpacked section, malloc'd. Return NULL if the file has no such section, if it is
 * damaged, if it unpacks to more than `bytes_max`, or without memory. */
void *debugdata_unpack(Elf *elf, size_t bytes_max, size_t *size);

#endif
