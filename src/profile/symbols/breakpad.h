/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breakpad symbol files (.sym, as dump_syms writes them): functions, inlined functions, files and
 * lines of addresses. A file is read as a stream: once for functions and once for the names that
 * they use. Only the answers are kept, so memory grows with the number of addresses, not with the
 * file. Lines of functions without a wanted address are skipped unparsed.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_H
#define HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_H

#include <stddef.h>
#include <stdint.h>

#include "profile/symbols/debug_info.h"
#include "util/error.h"

#define BREAKPAD_ID_CHARACTERS_MAX 63u
#define BREAKPAD_NAME_BYTES_MAX 255u
/* Digits that identify the file. The digits after them are its age. */
#define BREAKPAD_ID_DIGITS 32u

struct breakpad_module {
    char id[BREAKPAD_ID_CHARACTERS_MAX + 1]; /* upper-case hex, including the age */
    char name[BREAKPAD_NAME_BYTES_MAX + 1];  /* base name of the program or library */
};

/* Read which module a file describes, from its first line. Return 0, or a negative errno with
 * *error set. -EBADMSG: not a symbol file. */
int breakpad_read_module(const char *path, struct breakpad_module *module, struct error *error);
/* Like breakpad_read_module(), from the next line of an open file. */
struct breakpad_lines;
int breakpad_take_module(struct breakpad_lines *lines, struct breakpad_module *module,
                         struct error *error);

/* Compute the id that dump_syms gives to a file with this GNU build id: its first 16 bytes as a
 * GUID, with the bytes of the GUID's three numbers swapped, and age 0. */
void breakpad_id_of_build(const uint8_t *build_id, size_t length, char id[BREAKPAD_ID_DIGITS + 2]);

/* Find addresses as debug_info_find() does, and report those that the file has a function for.
 * Addresses are relative to the module's first loaded byte, sorted, each once. Return 0, the sink's
 * result, or a negative errno with *error set. If the file is damaged, the error names the line and
 * no address is reported. */
int breakpad_find(const char *path, const uint64_t *addresses, size_t count, debug_info_sink *sink,
                  void *context, struct error *error);

#endif
