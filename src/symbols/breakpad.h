/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol files of Breakpad (.sym, as its dump_syms writes them): functions, inlined functions,
 * files and lines of addresses. A file is read as a stream, once for functions and once more for
 * the names that were met; only what was asked for is kept, so memory grows with the addresses and
 * not with the file. Lines of functions that nobody asked for are passed over unread.
 */
#ifndef HEAPPROFD_SYMBOLS_BREAKPAD_H
#define HEAPPROFD_SYMBOLS_BREAKPAD_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/debug_info.h"
#include "util/error.h"

#define BREAKPAD_ID_CHARACTERS_MAX 63u
#define BREAKPAD_NAME_BYTES_MAX 255u
/* Of an id these are the file's own; what follows is its age. */
#define BREAKPAD_ID_DIGITS 32u

struct breakpad_module {
    char id[BREAKPAD_ID_CHARACTERS_MAX + 1]; /* upper-case hex, with the age behind it */
    char name[BREAKPAD_NAME_BYTES_MAX + 1];  /* base name of the program or library */
};

/* What the file is of, by its first line. 0, or a negative errno with *error set: -EBADMSG is no
 * symbol file. */
int breakpad_read_module(const char *path, struct breakpad_module *module, struct error *error);

/* The id that dump_syms gives to a file with this GNU build id: its first 16 bytes as a GUID, of
 * which three numbers have their bytes swapped, and the age 0. */
void breakpad_id_of_build(const uint8_t *build_id, size_t length, char id[BREAKPAD_ID_DIGITS + 2]);

/* As debug_info_find(), of all addresses that the file has a function for. They count from where
 * the module's first byte was loaded, are sorted, each once. 0, what the sink returned, or a
 * negative errno with *error set: damage is told with its line, and nothing is told of any address
 * then. */
int breakpad_find(const char *path, const uint64_t *addresses, size_t count, debug_info_sink *sink,
                  void *context, struct error *error);

#endif
